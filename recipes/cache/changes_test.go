package cache

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func at(czxid, mzxid int64) *value {
	return &value{data: []byte(fmt.Sprint(mzxid)), stat: zk.Stat{Czxid: czxid, Mzxid: mzxid}}
}

// drain takes all that waits for a reader, written as "created /a 1".
func drain(r *reader) (all []string) {
	for i := r.pop(); i != nil; i = r.pop() {
		ch := i.change()
		s := fmt.Sprintf("%v %s", ch.Kind, ch.Path)
		if ch.Kind != Created {
			s += fmt.Sprintf(" %s", ch.Old.Data)
		}
		if ch.Kind != Deleted {
			s += fmt.Sprintf(" %s", ch.New.Data)
		}
		all = append(all, s)
	}
	return all
}

func newReader() *reader {
	return &reader{last: make(map[string]*item), wake: make(chan struct{}, 1)}
}

func TestSlowReaderGetsTheNewestOfEachPath(t *testing.T) {
	for name, c := range map[string]struct {
		push func(r *reader)
		want []string
	}{
		"changes are one": {func(r *reader) {
			r.push("/a", at(1, 1), at(1, 2))
			r.push("/b", nil, at(3, 3))
			r.push("/a", at(1, 2), at(1, 4))
		}, []string{"changed /a 1 4", "created /b 3"}},
		"what came and changed, came": {func(r *reader) {
			r.push("/a", nil, at(1, 1))
			r.push("/a", at(1, 1), at(1, 2))
		}, []string{"created /a 2"}},
		"what came and went is left out": {func(r *reader) {
			r.push("/a", nil, at(1, 1))
			r.push("/a", at(1, 1), at(1, 2))
			r.push("/a", at(1, 2), nil)
		}, nil},
		"what changed and went, went with its last data": {func(r *reader) {
			r.push("/a", at(1, 1), at(1, 2))
			r.push("/a", at(1, 2), nil)
		}, []string{"deleted /a 2"}},
		"what was made again went before": {func(r *reader) {
			r.push("/a", at(1, 1), nil)
			r.push("/a", nil, at(2, 2))
			r.push("/a", at(2, 2), at(2, 3))
		}, []string{"deleted /a 1", "created /a 3"}},
		"made again and again is made once": {func(r *reader) {
			r.push("/a", at(1, 1), nil)
			for n := int64(2); n < 9; n++ {
				r.push("/a", nil, at(n, n))
				r.push("/a", at(n, n), nil)
			}
			r.push("/a", nil, at(9, 9))
		}, []string{"deleted /a 1", "created /a 9"}},
		"a tree that is made again goes first, from the bottom": {func(r *reader) {
			r.push("/a/x", at(2, 2), nil)
			r.push("/a", at(1, 1), nil)
			r.push("/a", nil, at(3, 3))
			r.push("/a/x", nil, at(4, 4))
		}, []string{"deleted /a/x 2", "deleted /a 1", "created /a 3", "created /a/x 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader()
			c.push(r)
			require.Equal(t, c.want, drain(r))
			require.Empty(t, r.last)
			require.Nil(t, r.back)
		})
	}
}

// TestChangesReplayedGiveTheTree has a reader of any speed apply what it gets to a tree that refuses what does
// not fit.
func TestChangesReplayedGiveTheTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, zxid := newReader(), int64(0)
		tree := map[string]*value{"": at(0, 0)} // what there is; "" is above the roots
		copied := map[string]*value{"": tree[""]}
		take := func(n int) {
			for ; n > 0; n-- {
				i := r.pop()
				if i == nil {
					return
				}
				have, there := copied[i.path]
				parent := i.path[:strings.LastIndex(i.path, "/")]
				switch i.change().Kind {
				case Created:
					require.False(t, there, i.path)
					require.Contains(t, copied, parent)
				case Changed:
					require.Equal(t, have.stat.Czxid, i.value.stat.Czxid)
					require.Less(t, have.stat.Mzxid, i.value.stat.Mzxid)
				case Deleted:
					require.True(t, there, i.path)
					for path := range copied {
						require.NotEqual(t, i.path, path[:max(strings.LastIndex(path, "/"), 0)], "its children go first")
					}
					delete(copied, i.path)
					continue
				}
				copied[i.path] = i.value
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			path := rapid.SampledFrom([]string{"/a", "/b", "/a/x", "/a/y", "/a/x/z"}).Draw(t, "path")
			have, parent := tree[path], tree[path[:strings.LastIndex(path, "/")]]
			leaf := true
			for other := range tree {
				leaf = leaf && !strings.HasPrefix(other, path+"/")
			}
			zxid++
			switch {
			case have == nil && parent == nil:
			case have == nil:
				tree[path] = at(zxid, zxid)
				r.push(path, nil, tree[path])
			case rapid.Bool().Draw(t, "change") || !leaf:
				tree[path] = at(have.stat.Czxid, zxid)
				r.push(path, have, tree[path])
			default:
				delete(tree, path)
				r.push(path, have, nil)
			}
			take(rapid.IntRange(0, 3).Draw(t, "taken"))
		}
		waiting := 0
		for i := r.front; i != nil; i = i.next {
			waiting++
		}
		require.LessOrEqual(t, waiting, 10, "two for each path at most")
		take(100)
		require.True(t, maps.Equal(tree, copied))
	})
}

func TestPathsAreInTheOrderOfTheTree(t *testing.T) {
	list := []string{"/", "/a", "/a/b", "/a/b/c", "/a/bc", "/a-b", "/a-b/c", "/aa", "/b"}
	for i, a := range list {
		for j, b := range list {
			switch got := comparePaths(a, b); {
			case i < j:
				require.Negative(t, got, "%s %s", a, b)
			case i > j:
				require.Positive(t, got, "%s %s", a, b)
			default:
				require.Zero(t, got)
			}
		}
	}
}

// TestValueOfAnEarlierNodeIsNotKept has a node be made again with bad data before anybody has looked at its deletion.
func TestValueOfAnEarlierNodeIsNotKept(t *testing.T) {
	c := &Cache{tree: tree{path: "/a"}}
	c.tree.add("/a", &value{})
	v := &Values[int]{cache: c, known: make(map[string]decoded[int]), decode: func(n Node) (int, error) { return strconv.Atoi(string(n.Data)) }}
	read := func(czxid, mzxid int64, data string) decoded[int] {
		return v.take(Node{Path: "/a", Data: []byte(data), Stat: zk.Stat{Czxid: czxid, Mzxid: mzxid}})
	}
	require.Equal(t, 7, read(1, 1, "7").value.Value)
	bad := read(1, 2, "x")
	require.True(t, bad.good)
	require.Equal(t, 7, bad.value.Value)
	require.Equal(t, bad, read(1, 1, "7"), "nothing goes back in time")
	bad = read(3, 3, "x")
	require.False(t, bad.good)
	require.Zero(t, bad.value.Value)
}
