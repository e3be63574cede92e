package tree

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/internal/proto"
)

// state is a tree to which a test applies requests, each with the next zxid.
type state struct {
	*Tree
	now time.Time
}

func newState(rules Rules) *state {
	if rules.Version == 0 {
		rules.Version = Newest
	}
	return &state{NewTree(rules), time.UnixMilli(1000)}
}

func (s *state) do(session int64, op proto.Op, body proto.Record) Result {
	return s.Apply(&Request{Zxid: s.Tree.Zxid + 1, Time: s.now, Session: session, Op: op, Body: body})
}

func (s *state) create(path string, flags int32) proto.Code {
	return s.do(1, proto.OpCreate2, &proto.CreateRequest{Path: path, Flags: flags, ACL: OpenACL}).Code
}

// print writes all of a tree but its zxid.
func print(t *Tree) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(t.Nodes)) {
		n := t.Nodes[path]
		fmt.Fprintf(&b, "%s %q %v %+v %v %v %v %d %d\n", path, n.Data, n.ACL, n.Stat, n.children, n.Container, n.TTL, n.childSets, n.shown)
	}
	for _, owner := range slices.Sorted(maps.Keys(t.ephemerals)) {
		fmt.Fprintln(&b, owner, t.Owned(owner))
	}
	fmt.Fprintln(&b, slices.Sorted(maps.Keys(t.reapable)))
	return b.String()
}

func TestApplyNumbersAndStats(t *testing.T) {
	s := newState(Rules{})
	require.Equal(t, proto.OK, s.create("/a", 0))
	require.Equal(t, proto.OK, s.create("/a/n-", 2))
	require.Equal(t, proto.OK, s.create("/a/n-", 3))
	require.Equal(t, proto.NodeExists, s.create("/a", 0))
	require.EqualValues(t, 4, s.Zxid, "a transaction that fails has a number")
	require.Equal(t, []string{"/a/n-0000000001"}, s.Owned(1))
	a := s.Nodes["/a"].Public()
	require.Equal(t, proto.Stat{Czxid: 1, Mzxid: 1, Pzxid: 3, Ctime: 1000, Mtime: 1000, Cversion: 2, NumChildren: 2}, a)
	require.Equal(t, proto.NoChildrenForEphemerals, s.create("/a/n-0000000001/b", 0))
	require.Equal(t, proto.NotEmpty, s.do(1, proto.OpDelete, &proto.VersionRequest{Path: "/a", Version: -1}).Code)

	res := s.do(1, proto.OpCloseSession, nil)
	require.Equal(t, []Event{{EventDeleted, "/a/n-0000000001", OpenACL}, {EventChildren, "/a", OpenACL}}, res.Events)
	require.Empty(t, s.Owned(1))
	require.EqualValues(t, 3, s.Nodes["/a"].Public().Cversion, "the client counts the delete, too")
}

// TestReap_OfAContainerThatIsUsedAgain between the check and the transaction.
func TestReap_OfAContainerThatIsUsedAgain(t *testing.T) {
	s := newState(Rules{})
	require.Equal(t, proto.OK, s.do(1, proto.OpCreateContainer, &proto.CreateRequest{Path: "/used", Flags: 4, ACL: OpenACL}).Code)
	require.Equal(t, proto.OK, s.create("/used/child", 0))
	require.Equal(t, proto.OK, s.do(1, proto.OpDelete, &proto.VersionRequest{Path: "/used/child", Version: -1}).Code)
	require.Equal(t, []string{"/used"}, s.ReapDue(s.now))
	require.Equal(t, proto.OK, s.create("/used/child", 0))
	res := s.Apply(&Request{Zxid: s.Zxid + 1, Edit: func(x *Txn) proto.Code { return x.Reap("/used") }})
	require.Equal(t, proto.NotEmpty, res.Code)
}

// TestTransactionsAreAllOrNothing applies random transactions. One that fails changes nothing, and
// the same ones on another tree, or on a clone, have the same results.
func TestTransactionsAreAllOrNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := Rules{TTLNodes: true, Quotas: true, Version: rapid.SampledFrom([]version{V38, V39}).Draw(t, "version")}
		s, twin := newState(rules), newState(rules)
		path := func() string {
			return rapid.SampledFrom([]string{
				"/a", "/a/b", "/a/b/c", "/e", "/a/n-", "/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats",
				"/", "a", "/zookeeper",
			}).Draw(t, "path")
		}
		one := func() proto.MultiOp {
			switch p, version := path(), rapid.Int32Range(-1, 1).Draw(t, "version"); rapid.IntRange(0, 4).Draw(t, "op") {
			case 0:
				return proto.MultiOp{Op: proto.OpDelete, Body: &proto.VersionRequest{Path: p, Version: version}}
			case 1:
				data := rapid.SampledFrom([]string{"", "x", "count=1,bytes=1;countHardLimit=1", "bad"}).Draw(t, "data")
				return proto.MultiOp{Op: proto.OpSetData, Body: &proto.SetDataRequest{Path: p, Data: []byte(data), Version: version}}
			case 2:
				return proto.MultiOp{Op: proto.OpCheck, Body: &proto.VersionRequest{Path: p, Version: version}}
			default:
				op := rapid.SampledFrom([]proto.Op{proto.OpCreate, proto.OpCreate2, proto.OpCreateContainer}).Draw(t, "kind")
				return proto.MultiOp{Op: op, Body: &proto.CreateRequest{Path: p, ACL: OpenACL, Flags: rapid.Int32Range(0, 4).Draw(t, "mode"), Data: []byte("count=1")}}
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "transactions") {
			var ops []proto.MultiOp
			for range rapid.IntRange(1, 4).Draw(t, "parts") {
				ops = append(ops, one())
			}
			before := print(s.Tree)
			cloned := &state{s.Tree.Clone(), s.now}
			res := s.do(1, proto.OpMulti, &proto.MultiRequest{Ops: ops})
			for _, other := range []*state{twin, cloned} {
				require.Equal(t, res, other.do(1, proto.OpMulti, &proto.MultiRequest{Ops: ops}))
				require.Equal(t, print(s.Tree), print(other.Tree))
			}
			m, answered := res.Body.(*proto.MultiResponse)
			if !answered || len(m.Results) > 0 && m.Results[0].Op == proto.OpError {
				require.Equal(t, before, print(s.Tree))
				require.Empty(t, res.Events)
			}
			for path, n := range s.Nodes { // the indexes belong to the nodes
				require.Equal(t, n.Stat.EphemeralOwner != 0, slices.Contains(s.Owned(1), path))
				require.Equal(t, n.Container || n.TTL > 0, s.reapable[path] == n)
				for _, name := range n.List() {
					require.Contains(t, s.Nodes, strings.TrimSuffix(path, "/")+"/"+name)
				}
			}
		}
	})
}
