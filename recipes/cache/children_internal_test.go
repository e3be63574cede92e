package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestChildrenAreLikeAMap adds and removes children at random and compares with a map, at sizes from none to thousands.
func TestChildrenAreLikeAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var c children
	want := make(map[string]*node)
	for step := range 60_000 {
		name := fmt.Sprintf("node-%d", random.IntN(4_000))
		growing := step/20_000%2 == 0
		switch {
		case want[name] == nil && (growing || random.IntN(10) == 0):
			n := &node{name: name}
			want[name] = n
			c.add(n)
		case want[name] != nil && (!growing || random.IntN(10) == 0):
			delete(want, name)
			c.remove(name)
		}
		require.Same(t, want[name], c.get(name))
		if step%1_000 != 0 {
			continue
		}
		require.Equal(t, len(want), c.len())
		found := slices.Collect(c.all())
		require.Len(t, found, len(want))
		for _, n := range found {
			require.Same(t, want[n.name], n)
		}
		for name, n := range want {
			require.Same(t, n, c.get(name))
		}
	}
	for name := range want {
		c.remove(name)
	}
	require.Zero(t, c.len())
	require.Nil(t, c.get("node-1"))
	require.Equal(t, 4, len(c.slots), "it becomes smaller, too")
}

// TestNoChildren: a leaf has no table.
func TestNoChildren(t *testing.T) {
	var c *children
	require.Zero(t, c.len())
	require.Nil(t, c.get("x"))
	require.Empty(t, slices.Collect(c.all()))
}

// TestNodesAreSmall: what docs/PERFORMANCE.md says of the heap for each node depends on these sizes, which are those
// that Go allocates.
func TestNodesAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(node{}), uintptr(48))
	require.LessOrEqual(t, unsafe.Sizeof(value{}), uintptr(96))
	var c children
	for i := range 1_000 {
		c.add(&node{name: fmt.Sprint(i)})
		require.LessOrEqual(t, len(c.slots), max(4, 3*c.count))
	}
}
