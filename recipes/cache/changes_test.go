package cache

import (
	"container/list"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func newReader() *reader[value] { return &reader[value]{open: make(map[string]*list.Element)} }

func at(czxid, mzxid int64) *value {
	return &value{data: []byte(fmt.Sprint(mzxid)), stat: zk.Stat{Czxid: czxid, Mzxid: mzxid}}
}

// drain takes all that waits for a reader, written as "created /a 1".
func drain(r *reader[value]) (all []string) {
	for i := r.pop(); i != nil; i = r.pop() {
		ch := change(i, (*value).node)
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

func push(r *reader[value], path string, old, new *value) {
	r.push(&item[value]{path: path, old: old, new: new})
}

func TestSlowReaderGetsTheNewestOfEachPath(t *testing.T) {
	for name, c := range map[string]struct {
		push func(r *reader[value])
		want []string
	}{
		"changes are one": {func(r *reader[value]) {
			push(r, "/a", at(1, 1), at(1, 2))
			push(r, "/b", nil, at(3, 3))
			push(r, "/a", at(1, 2), at(1, 4))
		}, []string{"changed /a 1 4", "created /b 3"}},
		"what came and changed, came": {func(r *reader[value]) {
			push(r, "/a", nil, at(1, 1))
			push(r, "/a", at(1, 1), at(1, 2))
		}, []string{"created /a 2"}},
		"what came and went is left out": {func(r *reader[value]) {
			push(r, "/a", nil, at(1, 1))
			push(r, "/a", at(1, 1), at(1, 2))
			push(r, "/a", at(1, 2), nil)
		}, nil},
		"what changed and went, went with its last data": {func(r *reader[value]) {
			push(r, "/a", at(1, 1), at(1, 2))
			push(r, "/a", at(1, 2), nil)
		}, []string{"deleted /a 2"}},
		"what was made again went before": {func(r *reader[value]) {
			push(r, "/a", at(1, 1), nil)
			push(r, "/a", nil, at(2, 2))
			push(r, "/a", at(2, 2), at(2, 3))
		}, []string{"deleted /a 1", "created /a 3"}},
		"made again and again is made once": {func(r *reader[value]) {
			push(r, "/a", at(1, 1), nil)
			for n := int64(2); n < 9; n++ {
				push(r, "/a", nil, at(n, n))
				push(r, "/a", at(n, n), nil)
			}
			push(r, "/a", nil, at(9, 9))
		}, []string{"deleted /a 1", "created /a 9"}},
		"a tree that is made again goes first, from the bottom": {func(r *reader[value]) {
			push(r, "/a/x", at(2, 2), nil)
			push(r, "/a", at(1, 1), nil)
			push(r, "/a", nil, at(3, 3))
			push(r, "/a/x", nil, at(4, 4))
		}, []string{"deleted /a/x 2", "deleted /a 1", "created /a 3", "created /a/x 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader()
			c.push(r)
			require.Equal(t, c.want, drain(r))
			require.Empty(t, r.open)
			require.Zero(t, r.queue.Len())
		})
	}
}

// TestChangesReplayedGiveTheTree has readers of any speed apply changes to a tree that refuses
// changes that do not fit.
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
				switch change(i, (*value).node).Kind {
				case Created:
					require.False(t, there, i.path)
					require.Contains(t, copied, parent)
				case Changed:
					require.Equal(t, have.stat.Czxid, i.new.stat.Czxid)
					require.Less(t, have.stat.Mzxid, i.new.stat.Mzxid)
				case Deleted:
					require.True(t, there, i.path)
					for path := range copied {
						require.NotEqual(t, i.path, path[:max(strings.LastIndex(path, "/"), 0)], "its children go first")
					}
					delete(copied, i.path)
					continue
				}
				copied[i.path] = i.new
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
				push(r, path, nil, tree[path])
			case rapid.Bool().Draw(t, "change") || !leaf:
				tree[path] = at(have.stat.Czxid, zxid)
				push(r, path, have, tree[path])
			default:
				delete(tree, path)
				push(r, path, have, nil)
			}
			take(rapid.IntRange(0, 3).Draw(t, "taken"))
		}
		require.LessOrEqual(t, r.queue.Len(), 10, "two for each path at most")
		take(100)
		require.True(t, maps.Equal(tree, copied))
	})
}

func TestNodesAreInTheOrderOfTheTree(t *testing.T) {
	want := []string{"/", "/a", "/a/b", "/a/b/c", "/a/bc", "/a-b", "/a-b/c", "/aa", "/b"}
	s := store[value]{path: "/"}
	for _, path := range []string{"/", "/b", "/aa", "/a-b", "/a", "/a/bc", "/a-b/c", "/a/b", "/a/b/c"} {
		s.put(path, at(1, 1), true)
	}
	list := func(path string, levels int) (paths []string) {
		for _, i := range s.list(path, levels) {
			paths = append(paths, i.path)
		}
		return paths
	}
	require.Equal(t, want, list("/", anyLevel))
	require.Equal(t, []string{"/", "/a", "/a-b", "/aa", "/b"}, list("/", 1))
	require.Equal(t, []string{"/a", "/a/b", "/a/bc"}, list("/a", 1))
	require.Empty(t, list("/c", 1))
	require.EqualValues(t, len(want), s.size.Load())
}
