package zktest_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// pathOf is the body of a request that has a path only.
func pathOf(path string) buffer {
	var b buffer
	b.text(path)
	return b
}

func addWatch(path string, mode int32) buffer {
	b := pathOf(path)
	b.int(mode)
	return b
}

func TestKeeperCutsTheConnectionAtAnUnknownOperation(t *testing.T) {
	look := pathOf("/n")
	look.bool(false)
	var multi buffer
	multi.int(opCreateContainer).bool(false).int(-1)
	multi = append(multi, create("/n/c", 4)...)
	multi.int(-1).bool(true).int(-1)
	bodies := map[int32]buffer{
		opExists: look, opCreate: create("/n/x", 0), opCreate2: create("/n/y", 0), opRemoveWatches: addWatch("/n", 3),
		opCreateContainer: create("/n/c", 4), opAddWatch: addWatch("/n", 1), opMulti: multi, opWhoAmI: nil,
		opSetWatches: *(&buffer{}).long(0).texts().texts().texts(), opCreateTTL: *ptr(create("/n/t", 5)).long(5000),
	}
	for age, unknown := range map[string][]int32{
		"old":    {opCreate2, opRemoveWatches, opCreateContainer, opAddWatch, opMulti, opWhoAmI, opSetWatches, opCreateTTL},
		"recent": {opCreateContainer, opMulti, opWhoAmI, opCreateTTL},
		"new":    {opCreateTTL, opWhoAmI},
		"newest": {opCreateTTL, opWhoAmI},
	} {
		for op, body := range bodies {
			s := zktest.NewServer(t, zktest.LikeKeeper(age), zktest.WithInMemory())
			c := raw(t, s, nil)
			mustCreate(t, c, "/n", 0)
			var lines []string
			stop := s.Trace(func(e zktest.Event) { lines = append(lines, e.String()) })
			_, err := c.call(op, body)
			stop()
			if assert.Equal(t, contains(unknown, op), err != nil, "Keeper %s, op %d: %v", age, op, err) && err != nil {
				again := raw(t, s, nil)
				ask(t, again, opPing, nil)
				require.Zero(t, s.Requests().Requests[proto.Op(op).String()], "op %d was not applied", op)
				if op != opSetWatches { // housekeeping is not traced
					require.Len(t, lines, 1)
					require.Contains(t, lines[0], "unknown operation")
				}
			}
		}
	}
}

func contains(list []int32, v int32) bool {
	for _, other := range list {
		if v == other {
			return true
		}
	}
	return false
}

func TestTheAgeOfAKeeperIsKnown(t *testing.T) {
	_, err := zktest.Start(zktest.LikeKeeper(""))
	require.Error(t, err)
}

func TestKeeperNeverRestoresASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.LikeKeeper("recent"), zktest.WithInMemory())
		old := raw(t, s, nil)
		mustCreate(t, old, "/owned", 1)
		require.NoError(t, old.conn.Close())
		again := raw(t, s, old)
		require.NotZero(t, again.id)
		require.NotEqual(t, old.id, again.id)
		require.True(t, s.Exists("/owned"), "until the old session's time has passed")
		for range 4 {
			time.Sleep(3 * time.Second)
			ask(t, again, opPing, nil)
		}
		require.False(t, s.Exists("/owned"))
		require.Len(t, s.Sessions(), 1)
	})
}

func TestChildrenOfTTLNodesAreRefusedByNewKeepers(t *testing.T) {
	for _, age := range []string{"new", "newest"} {
		s := zktest.NewServer(t, zktest.LikeKeeper(age), zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
		c := raw(t, s, nil)
		r := ask(t, c, opCreateTTL, *ptr(create("/ttl", 5)).long(5000))
		require.Zero(t, r.code)
		r = ask(t, c, opCreate, create("/ttl/child", 0))
		require.EqualValues(t, -8, r.code)
		r = ask(t, c, opCreate, create("", 0))
		require.EqualValues(t, -8, r.code, "a path that is none")
	}
}

func TestKeeperNewAnswersContainers(t *testing.T) {
	c := raw(t, zktest.NewServer(t, zktest.LikeKeeper("new")), nil)
	for name, op := range map[string]int32{"/a": opCreate, "/b": opCreate2, "/c": opCreateContainer} {
		r := ask(t, c, op, create(name, 4))
		require.EqualValues(t, -8, r.code, name)
	}
}

func TestKeeperNewestMakesContainersAndShowsThemAsOwned(t *testing.T) {
	s := zktest.NewServer(t, zktest.LikeKeeper("newest"))
	c := raw(t, s, nil)
	r := ask(t, c, opCreateContainer, create("/c", 4))
	require.Zero(t, r.code)
	stat := testbed.ServerStat(t, s, "/c")
	require.EqualValues(t, math.MinInt64, stat.EphemeralOwner)
	mustCreate(t, c, "/c/child", 0) // it is not an ephemeral node
	require.NoError(t, s.Delete("/c/child"))
	s.ReapContainers()
	require.False(t, s.Exists("/c"))
}

// TestAClientCannotChangeAKeepersOwnNodes alone or in a multi, and cannot check the nodes of the
// newest Keepers.
func TestAClientCannotChangeAKeepersOwnNodes(t *testing.T) {
	path := "/keeper/api_version"
	set, check := pathOf(path), pathOf(path)
	set.bytes(nil).int(-1)
	check.int(-1)
	setACL := pathOf(path)
	setACL.int(1).int(31).text("world")
	setACL.text("anyone")
	setACL.int(-1)
	alone := map[string]struct {
		op   int32
		body buffer
	}{
		"create": {opCreate, create("/keeper/a", 0)}, "create anew": {opCreate, create("/keeper", 0)},
		"delete": {opDelete, check}, "set": {opSetData, set}, "set the ACL": {opSetACL, setACL},
	}
	for _, age := range []string{"recent", "new", "newest"} {
		c := raw(t, zktest.NewServer(t, zktest.LikeKeeper(age)), nil)
		for name, request := range alone {
			r := ask(t, c, request.op, request.body)
			require.EqualValues(t, -8, r.code, name)
		}
		mustCreate(t, c, "/keeper", 2) // another name
		for op, want := range map[int32]bool{opCheck: age != "newest", opDelete: false} {
			var multi buffer
			multi.int(op).bool(false).int(-1)
			multi = append(append(multi, check...), *(&buffer{}).int(-1).bool(true).int(-1)...)
			r := ask(t, c, opMulti, multi)
			require.Equal(t, want, (&cursor{b: r.body}).int() == op, "Keeper %s, op %d: whether the first result is one of it", age, op)
		}
	}
}

// As measured with Java's client on 26.3 and 26.8 (ClickHouse#115457).
func TestKeepersStatsOfParents(t *testing.T) {
	for name, test := range map[string]struct {
		opts               []zktest.Option
		afterSet, afterDel int32
		moved              bool
	}{
		"ZooKeeper": {nil, 1, 2, true},
		"Keeper":    {[]zktest.Option{zktest.LikeKeeper("recent")}, 2, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := zktest.NewServer(t, test.opts...)
			stat := func(change error) zk.Stat {
				require.NoError(t, change)
				stat := testbed.ServerStat(t, s, "/p")
				return stat
			}
			require.NoError(t, s.Create("/p", nil))
			created := stat(s.Create("/p/c", nil))
			require.EqualValues(t, 1, created.Cversion)
			set := stat(s.Set("/p/c", nil))
			require.Equal(t, test.afterSet, set.Cversion)
			require.Equal(t, created.Pzxid, set.Pzxid)
			deleted := stat(s.Delete("/p/c"))
			require.Equal(t, test.afterDel, deleted.Cversion)
			require.Equal(t, test.moved, deleted.Pzxid > set.Pzxid)
		})
	}
}

// The counts of a transaction that fails are taken back.
func TestKeepersStatsOfATransactionThatFails(t *testing.T) {
	s := zktest.NewServer(t, zktest.LikeKeeper("recent"))
	require.NoError(t, s.Create("/p", nil))
	require.NoError(t, s.Create("/p/c", nil))
	before := testbed.ServerStat(t, s, "/p")
	conn, _, err := zk.Connect(s.Servers(), 10*time.Second, zk.WithLogger(quiet{}))
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Multi(&zk.SetDataRequest{Path: "/p/c", Version: -1}, &zk.DeleteRequest{Path: "/missing", Version: -1})
	require.ErrorIs(t, err, zk.ErrNoNode)
	after := testbed.ServerStat(t, s, "/p")
	require.Equal(t, before, after)
}

func TestKeeperReportsThePathOfARecursiveWatch(t *testing.T) {
	for name, c := range map[string]struct {
		opts []zktest.Option
		want []string
	}{
		"ZooKeeper": {nil, []string{"event 1 /w/a", "event 1 /w/a/b", "event 3 /w/a/b", "event 2 /w/a/b"}},
		"Keeper": {[]zktest.Option{zktest.LikeKeeper("recent")},
			[]string{"event 1 /w", "event 1 /w", "event 3 /w/a/b", "event 2 /w"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := zktest.NewServer(t, c.opts...)
			client := raw(t, s, nil)
			mustCreate(t, client, "/w", 0)
			ask(t, client, opAddWatch, addWatch("/w", 1))
			mustCreate(t, client, "/w/a", 0)
			mustCreate(t, client, "/w/a/b", 0)
			look := pathOf("/w/a/b")
			look.bool(true) // a watch of the node's own reports the node's path
			ask(t, client, opGetData, look)
			set := pathOf("/w/a/b")
			set.bytes(nil).int(-1)
			ask(t, client, opSetData, set)
			del := pathOf("/w/a/b")
			del.int(-1)
			ask(t, client, opDelete, del)
			require.Equal(t, c.want, client.events)
		})
	}
}

func TestAKeepersOwnNodes(t *testing.T) {
	for age, want := range map[string][]string{
		"old":    nil,
		"recent": {"keeper"},
		"new":    {"keeper"},
		"newest": {"keeper"},
	} {
		s := zktest.NewServer(t, zktest.LikeKeeper(age))
		children, err := s.Children("/")
		require.NoError(t, err)
		require.Equal(t, want, children)
		require.Empty(t, s.Tree(), "they are not shown")
		if age == "old" {
			continue
		}
		children, err = s.Children("/keeper")
		require.NoError(t, err)
		require.Equal(t, []string{"api_version", "config", "feature_flags"}, children)
		data, err := s.Get("/keeper/config")
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("server.1=%s;participant;1", s.Addr()), string(data))
		data, err = s.Get("/keeper/api_version")
		require.NoError(t, err)
		require.Equal(t, "2", string(data))
		for _, path := range []string{"/keeper", "/keeper/api_version", "/keeper/config"} {
			require.Error(t, s.Delete(path), path)
		}
	}
}

// TestAKeeperWithTheDataOfAZooKeeper has the data that clickhouse-keeper-converter copies: all
// nodes, also below /zookeeper.
func TestAKeeperWithTheDataOfAZooKeeper(t *testing.T) {
	s := zktest.NewServer(t, zktest.LikeKeeper("recent"))
	require.NoError(t, s.Create("/zookeeper/config", []byte("server.1=old:2888:3888:participant")))
	children, err := s.Children("/")
	require.NoError(t, err)
	require.Equal(t, []string{"keeper", "zookeeper"}, children)
}

// TestAKeeperGivesNoPassword: ZooKeeper's is random.
func TestAKeeperGivesNoPassword(t *testing.T) {
	zeros := make([]byte, 16)
	for _, age := range []string{"old", "recent", "new", "newest"} {
		require.Equal(t, zeros, raw(t, zktest.NewServer(t, zktest.LikeKeeper(age)), nil).pass)
	}
	require.NotEqual(t, zeros, raw(t, zktest.NewServer(t), nil).pass)
}

func TestSessionsAreRefusedAsByAKeeperWithoutALeader(t *testing.T) {
	s := zktest.NewServer(t, zktest.LikeKeeper("old"))
	before := raw(t, s, nil)
	s.RefuseSessions(true)
	conn, err := s.Dial("", "", 0)
	require.NoError(t, err)
	defer conn.Close()
	c := &rawClient{conn: conn}
	var b buffer
	b.int(0).long(0).int(10_000).long(0).bytes(make([]byte, 16)).bool(false)
	require.NoError(t, c.write(b))
	record, err := c.read()
	require.NoError(t, err)
	var want buffer
	want.int(42).int(10_000).long(-1).bytes(make([]byte, 16))
	require.Equal(t, []byte(want), record)
	_, err = c.read()
	require.Error(t, err, "it closes")
	require.Len(t, s.Sessions(), 1)
	_, err = before.call(opPing, nil)
	require.NoError(t, err, "who has a session stays")
	s.RefuseSessions(false)
	require.Positive(t, raw(t, s, nil).id)
}
