package node_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNode(t *testing.T) {
	testbed.Run(t, []testbed.Case{
		{Name: "exists with its data, and is gone after the close", Test: existsUntilClosed},
		{Name: "data are changed in place", Test: dataChangeInPlace},
		{Name: "data of a sequential node are changed in place", Test: sequentialDataChangeInPlace},
		{Name: "a node of the same session is taken over", Test: takesOver},
		{Name: "a deleted node comes back under the same name", Test: comesBack},
		{Name: "a persistent node outlives its client", Test: persistentOutlives},
		{Name: "a persistent node goes with its close", Test: persistentGoes},
		{Name: "comes back after the end of the session, with what was set last", Test: survivesSession},
		{Name: "names are kept after the end of the session", Test: namesAreKept},
		{Name: "a missing parent is reported", Test: missingParent},
		{Name: "another's node is waited for", Test: waitsForAnother},
		{Name: "another's node is replaced, and the one that came last wins", Test: replaces},
		{Name: "another's node is a failure", Test: failsIfTaken},
		{Name: "another keep of the same client is another", Test: sameClient},
		{Name: "sequential nodes have numbers of their own", Test: numbers},
		{Name: "the end of the client is told", Test: clientCloses},
	})
}

// keep makes a node that is kept, and closes it at the end of the test.
func keep(t *testing.T, client *framework.Client, path, data string, opts ...node.Option) *node.Node {
	t.Helper()
	n, err := node.Keep(testbed.Context(t), client, path, []byte(data), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	there, _ := n.Present()
	require.True(t, there)
	require.NoError(t, n.Err())
	return n
}

// data reads a node with another client; "-" stands for no node.
func data(t *testing.T, client *framework.Client, path string) string {
	t.Helper()
	testbed.CatchUp(t, client)
	data, _, err := client.Get(testbed.Context(t), path)
	if errors.Is(err, zk.ErrNoNode) {
		return "-"
	}
	require.NoError(t, err)
	return string(data)
}

// kept is a node or a member.
type kept interface {
	Present() (bool, <-chan struct{})
	Err() error
}

// await waits until the node is there, or is not, and Err is as condition wants it.
func await(t *testing.T, n kept, condition func(there bool, err error) bool) {
	t.Helper()
	ctx := testbed.Context(t)
	for {
		there, changed := n.Present()
		if condition(there, n.Err()) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.FailNow(t, "waited in vain", "there: %v, reason: %v", there, n.Err())
		}
	}
}

func isThere(there bool, err error) bool { return there && err == nil }

func reason(want error) func(bool, error) bool {
	return func(there bool, err error) bool { return !there && errors.Is(err, want) }
}

// expire ends the session, and waits until the node is there in the next one.
func expire(t *testing.T, bed *testbed.Bed, client *framework.Client, n *node.Node) {
	t.Helper()
	_, before, err := client.Exists(testbed.Context(t), n.Path())
	require.NoError(t, err)
	_, changed := n.Present()
	bed.KillSession(t, client)
	testbed.Receive(t, changed, "word of the loss")
	testbed.Eventually(t, func() bool {
		found, stat, err := client.Exists(testbed.Context(t), n.Path())
		return err == nil && found && stat.Czxid > before.Czxid
	}, "the node is made again")
	await(t, n, isThere)
}

func existsUntilClosed(t *testing.T, bed *testbed.Bed) { // CUR-NOD-01
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	n := keep(t, client, path, "a")
	require.Equal(t, path, n.Path())
	require.Equal(t, "a", data(t, other, path))
	require.NoError(t, n.Close())
	require.Equal(t, "-", data(t, other, path))
	require.NoError(t, n.Close(), "again")
	there, _ := n.Present()
	require.False(t, there)
	require.ErrorIs(t, n.Err(), node.ErrClosed)
	require.ErrorIs(t, n.Set(testbed.Context(t), []byte("b")), node.ErrClosed)
}

func dataChangeInPlace(t *testing.T, bed *testbed.Bed) { changeInPlace(t, bed) }
func sequentialDataChangeInPlace(t *testing.T, bed *testbed.Bed) {
	changeInPlace(t, bed, node.Sequential())
}

func changeInPlace(t *testing.T, bed *testbed.Bed, opts ...node.Option) { // CUR-NOD-02
	client, other := bed.Client(t), bed.Client(t)
	n := keep(t, client, testbed.Path(t), "a", opts...)
	path := n.Path()
	testbed.CatchUp(t, other)
	_, first, watch, err := other.GetW(testbed.Context(t), path)
	require.NoError(t, err)
	for _, text := range []string{"b", "c"} {
		require.NoError(t, n.Set(testbed.Context(t), []byte(text)))
		testbed.Receive(t, watch.Done(), "the change")
		require.Equal(t, zk.EventNodeDataChanged, watch.Event().Type)
		var got []byte
		var stat *zk.Stat
		got, stat, watch, err = other.GetW(testbed.Context(t), path)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		require.Equal(t, first.Czxid, stat.Czxid, "it is the same node")
		require.Equal(t, path, n.Path())
	}
	require.NoError(t, n.Close())
	testbed.Receive(t, watch.Done(), "the deletion")
	require.Equal(t, zk.EventNodeDeleted, watch.Event().Type)
}

func takesOver(t *testing.T, bed *testbed.Bed) { // CUR-NOD-03
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	_, err := client.Create(testbed.Context(t), path, []byte("old"), framework.As(framework.Ephemeral), framework.ContainerParents())
	require.NoError(t, err)
	keep(t, client, path, "new")
	require.Equal(t, "new", data(t, other, path))
}

func comesBack(t *testing.T, bed *testbed.Bed) { // CUR-NOD-04
	for name, opts := range map[string][]node.Option{
		"plain": nil, "sequential": {node.Sequential()}, "protected": {node.Protected()},
		"both": {node.Sequential(), node.Protected()}, "persistent": {node.Persistent()},
	} {
		t.Run(name, func(t *testing.T) {
			client, other := bed.Client(t), bed.Client(t)
			n := keep(t, client, testbed.Path(t), "a", opts...)
			require.NoError(t, n.Set(testbed.Context(t), []byte("b")))
			path := n.Path()
			_, before, err := client.Exists(testbed.Context(t), path)
			require.NoError(t, err)
			testbed.CatchUp(t, other)
			require.NoError(t, other.Delete(testbed.Context(t), path, -1))
			testbed.Eventually(t, func() bool {
				found, stat, err := client.Exists(testbed.Context(t), path)
				return err == nil && found && stat.Czxid > before.Czxid
			}, "the node is made again")
			await(t, n, isThere)
			require.Equal(t, "b", data(t, other, path))
			require.Equal(t, path, n.Path())
		})
	}
}

func persistentOutlives(t *testing.T, bed *testbed.Bed) { // CUR-NOD-05
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	n := keep(t, client, path, "a", node.Persistent())
	require.NoError(t, client.Close())
	require.Equal(t, "a", data(t, other, path))
	require.ErrorIs(t, n.Close(), framework.ErrClosed, "it was not deleted")
	// The next life takes it over.
	keep(t, other, path, "b", node.Persistent())
	require.Equal(t, "b", data(t, other, path))
}

func persistentGoes(t *testing.T, bed *testbed.Bed) {
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	n := keep(t, client, path, "a", node.Persistent())
	_, stat, err := client.Exists(testbed.Context(t), path)
	require.NoError(t, err)
	require.Zero(t, stat.EphemeralOwner)
	require.NoError(t, n.Close())
	require.Equal(t, "-", data(t, other, path))
}

func survivesSession(t *testing.T, bed *testbed.Bed) {
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	n := keep(t, client, path, "a")
	require.NoError(t, n.Set(testbed.Context(t), []byte("b")))
	expire(t, bed, client, n)
	require.Equal(t, "b", data(t, other, path))
	_, stat, err := client.Exists(testbed.Context(t), path)
	require.NoError(t, err)
	session, err := client.Session(testbed.Context(t))
	require.NoError(t, err)
	require.Equal(t, session.ID(), stat.EphemeralOwner, "it belongs to the new session")
}

func namesAreKept(t *testing.T, bed *testbed.Bed) { // CURATOR-190, CURATOR-483
	for name, opts := range map[string][]node.Option{
		"sequential": {node.Sequential()}, "protected": {node.Protected()}, "both": {node.Sequential(), node.Protected()},
	} {
		t.Run(name, func(t *testing.T) {
			client, other := bed.Client(t), bed.Client(t)
			n := keep(t, client, testbed.Path(t), "a", opts...)
			path := n.Path()
			dir, child := framework.Split(path)
			require.Equal(t, strings.Contains(name, "sequential") || name == "both", strings.HasSuffix(child, "0000000000"))
			_, id := framework.Unprotected(child)
			require.Equal(t, name != "sequential", id != "", child)
			for range 2 {
				expire(t, bed, client, n)
				require.Equal(t, path, n.Path())
				testbed.CatchUp(t, other)
				children, _, err := other.Children(testbed.Context(t), dir)
				require.NoError(t, err)
				require.Equal(t, []string{child}, children, "the same name, once")
			}
		})
	}
}

func missingParent(t *testing.T, bed *testbed.Bed) { // CUR-NOD-07
	client, other := bed.Client(t), bed.Client(t)
	dir, _ := framework.Split(testbed.Path(t))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := node.Keep(ctx, client, dir+"/a", nil, node.WithoutParents())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.Equal(t, "-", data(t, other, dir))

	kept := make(chan *node.Node, 1)
	go func() {
		n, err := node.Keep(testbed.Context(t), client, dir+"/a", []byte("a"), node.WithoutParents())
		assert.NoError(t, err)
		kept <- n
	}()
	_, err = other.Create(testbed.Context(t), dir, nil)
	require.NoError(t, err)
	n := testbed.Receive(t, kept, "the node")
	require.NoError(t, n.Close())
}

func waitsForAnother(t *testing.T, bed *testbed.Bed) {
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	first := keep(t, other, path, "first")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := node.Keep(ctx, client, path, []byte("second"))
	require.ErrorIs(t, err, node.ErrTaken)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, "first", data(t, client, path), "it was not touched")

	kept := make(chan *node.Node, 1)
	go func() {
		n, err := node.Keep(testbed.Context(t), client, path, []byte("second"))
		assert.NoError(t, err)
		kept <- n
	}()
	require.NoError(t, first.Close())
	second := testbed.Receive(t, kept, "the node")
	require.Equal(t, "second", data(t, other, path))
	require.NoError(t, second.Close())
}

func replaces(t *testing.T, bed *testbed.Bed) {
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	first := keep(t, other, path, "first", node.IfTaken(node.Replace))
	second := keep(t, client, path, "second", node.IfTaken(node.Replace))
	await(t, first, reason(node.ErrTaken))
	require.Equal(t, "second", data(t, other, path))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, first.Set(ctx, []byte("more")), node.ErrTaken)
	require.Equal(t, "second", data(t, other, path))
	require.NoError(t, second.Close())
	await(t, first, isThere)
	require.Equal(t, "more", data(t, other, path), "what was set meanwhile")
	require.NoError(t, first.Close())
	require.Equal(t, "-", data(t, other, path))
}

func failsIfTaken(t *testing.T, bed *testbed.Bed) {
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	_, err := other.Create(testbed.Context(t), path, []byte("other"), framework.ContainerParents())
	require.NoError(t, err)
	_, err = node.Keep(testbed.Context(t), client, path, []byte("a"), node.IfTaken(node.Fail))
	require.ErrorIs(t, err, node.ErrTaken)
	require.Equal(t, "other", data(t, other, path))
	require.NoError(t, other.Delete(testbed.Context(t), path, -1))

	// Later it is as with Wait.
	n := keep(t, client, path, "a", node.IfTaken(node.Fail))
	thief := keep(t, other, path, "b", node.IfTaken(node.Replace))
	await(t, n, reason(node.ErrTaken))
	require.NoError(t, thief.Close())
	await(t, n, isThere)
}

func sameClient(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	path := testbed.Path(t)
	first := keep(t, client, path, "first")
	_, err := node.Keep(testbed.Context(t), client, path, []byte("second"), node.IfTaken(node.Fail))
	require.ErrorIs(t, err, node.ErrTaken)
	second := keep(t, client, path, "second", node.IfTaken(node.Replace))
	await(t, first, reason(node.ErrTaken))
	require.NoError(t, first.Close())
	require.Equal(t, "second", data(t, client, path), "another's node was left alone")
	await(t, second, isThere)
}

func numbers(t *testing.T, bed *testbed.Bed) {
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	var names []string
	for _, c := range []*framework.Client{client, other, client} {
		testbed.CatchUp(t, c)
		_, name := framework.Split(keep(t, c, path, "", node.Sequential()).Path())
		names = append(names, name)
	}
	require.Equal(t, []string{"lock0000000000", "lock0000000001", "lock0000000002"}, names)
	by, err := other.Create(testbed.Context(t), path, nil, framework.As(framework.EphemeralSequential))
	require.NoError(t, err)
	require.Equal(t, path+"0000000003", by, "the server counts them, too")
	// The next number is taken by somebody who chose it.
	_, err = other.Create(testbed.Context(t), path+"0000000005", nil, framework.As(framework.Ephemeral))
	require.NoError(t, err)
	testbed.CatchUp(t, client)
	require.Equal(t, path+"0000000006", keep(t, client, path, "", node.Sequential()).Path())
	// All at a time, from one client.
	kept := make(chan string, 8)
	for range cap(kept) {
		go func() {
			n, err := node.Keep(testbed.Context(t), client, path, nil, node.Sequential())
			if assert.NoError(t, err) {
				kept <- n.Path()
			}
		}()
	}
	names = nil
	for range cap(kept) {
		names = append(names, testbed.Receive(t, kept, "a node"))
	}
	slices.Sort(names)
	require.Len(t, slices.Compact(names), cap(kept))
}

func clientCloses(t *testing.T, bed *testbed.Bed) {
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	n := keep(t, client, path, "a")
	require.NoError(t, client.Close())
	await(t, n, reason(framework.ErrClosed))
	require.ErrorIs(t, n.Set(testbed.Context(t), nil), framework.ErrClosed)
	require.Equal(t, "-", data(t, other, path))
	require.NoError(t, n.Close())
	_, err := node.Keep(testbed.Context(t), client, path, nil)
	require.ErrorIs(t, err, framework.ErrClosed)
}
