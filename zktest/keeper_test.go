package zktest_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestKeeperCutsTheConnectionAtAnUnknownOperation(t *testing.T) {
	bodies := map[int32]buffer{
		opExists: watched("/n", false), opCreate: create("/n/x", 0), opCreate2: create("/n/y", 0), opRemoveWatches: addWatch("/n", 3),
		opCreateContainer: create("/n/c", 4), opAddWatch: addWatch("/n", 1), opWhoAmI: nil,
		opMulti:      multiOf(part(opCreateContainer, create("/n/c", 4))),
		opSetWatches: *(&buffer{}).long(0).texts().texts().texts(), opCreateTTL: createTTL("/n/t", 5000),
	}
	for age, unknown := range map[string][]int32{
		"old":    {opCreate2, opRemoveWatches, opCreateContainer, opAddWatch, opMulti, opWhoAmI, opSetWatches, opCreateTTL},
		"recent": {opCreateContainer, opMulti, opWhoAmI, opCreateTTL},
		"new":    {opCreateTTL, opWhoAmI},
		"newest": {opCreateTTL, opWhoAmI},
	} {
		for op, body := range bodies {
			s, c := serve(t, zktest.LikeKeeper(age), zktest.WithInMemory())
			mustCreate(t, c, "/n", 0)
			var lines []string
			stop := s.Trace(func(e zktest.Event) { lines = append(lines, e.String()) })
			_, err := c.call(op, body)
			stop()
			if assert.Equal(t, slices.Contains(unknown, op), err != nil, "Keeper %s, op %d: %v", age, op, err) && err != nil {
				ping(t, raw(t, s, nil))
				require.Zero(t, s.Requests().Requests[proto.Op(op).String()], "op %d was not applied", op)
				if op != opSetWatches { // housekeeping is not traced
					require.Len(t, lines, 1)
					require.Contains(t, lines[0], "unknown operation")
				}
			}
		}
	}
}

func TestKeeperNeverRestoresASession(t *testing.T) {
	alone(t, func(t *testing.T, s *zktest.Server) {
		old := raw(t, s, nil)
		mustCreate(t, old, "/owned", 1)
		require.NoError(t, old.conn.Close())
		again := raw(t, s, old)
		require.NotZero(t, again.id)
		require.NotEqual(t, old.id, again.id)
		require.True(t, s.Exists("/owned"), "until the old session's time has passed")
		for range 4 {
			time.Sleep(3 * time.Second)
			ping(t, again)
		}
		require.False(t, s.Exists("/owned"))
		require.Len(t, s.Sessions(), 1)
	}, zktest.LikeKeeper("recent"))
}

func TestChildrenOfTTLNodesAreRefusedByNewKeepers(t *testing.T) {
	for _, age := range []string{"new", "newest"} {
		_, c := serve(t, zktest.LikeKeeper(age), zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
		require.Zero(t, ask(t, c, opCreateTTL, createTTL("/ttl", 5000)).code)
		require.EqualValues(t, -8, ask(t, c, opCreate, create("/ttl/child", 0)).code)
		require.EqualValues(t, -8, ask(t, c, opCreate, create("", 0)).code, "a path that is none")
	}
}

func TestKeeperNewAnswersContainers(t *testing.T) {
	c := raw(t, zktest.NewServer(t, zktest.LikeKeeper("new")), nil)
	for name, op := range map[string]int32{"/a": opCreate, "/b": opCreate2, "/c": opCreateContainer} {
		require.EqualValues(t, -8, ask(t, c, op, create(name, 4)).code, name)
	}
}

func TestKeeperNewestMakesContainersAndShowsThemAsOwned(t *testing.T) {
	s, c := serve(t, zktest.LikeKeeper("newest"))
	require.Zero(t, ask(t, c, opCreateContainer, create("/c", 4)).code)
	require.EqualValues(t, math.MinInt64, testbed.ServerStat(t, s, "/c").EphemeralOwner)
	mustCreate(t, c, "/c/child", 0) // it is not an ephemeral node
	require.NoError(t, s.Delete("/c/child"))
	s.ReapContainers()
	require.False(t, s.Exists("/c"))
}

// TestAClientCannotChangeAKeepersOwnNodes alone or in a multi, and cannot check the nodes of the
// newest Keepers.
func TestAClientCannotChangeAKeepersOwnNodes(t *testing.T) {
	path := "/keeper/api_version"
	setACL := pathOf(path)
	setACL.int(1).int(31).text("world").text("anyone").int(-1)
	requests := map[string]struct {
		op   int32
		body buffer
	}{
		"create": {opCreate, create("/keeper/a", 0)}, "create anew": {opCreate, create("/keeper", 0)},
		"delete": {opDelete, deletion(path)}, "set": {opSetData, setBody(path, "")}, "set the ACL": {opSetACL, setACL},
	}
	for _, age := range []string{"recent", "new", "newest"} {
		c := raw(t, zktest.NewServer(t, zktest.LikeKeeper(age)), nil)
		for name, request := range requests {
			require.EqualValues(t, -8, ask(t, c, request.op, request.body).code, name)
		}
		mustCreate(t, c, "/keeper", 2) // another name
		for op, want := range map[int32]bool{opCheck: age != "newest", opDelete: false} {
			r := ask(t, c, opMulti, multiOf(part(op, deletion(path))))
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
				return testbed.ServerStat(t, s, "/p")
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
	multi := multiOf(part(opSetData, setBody("/p/c", "")), part(opDelete, deletion("/missing")))
	result := &cursor{b: ask(t, raw(t, s, nil), opMulti, multi).body}
	require.EqualValues(t, -1, result.int(), "an error")
	require.Equal(t, before, testbed.ServerStat(t, s, "/p"))
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
			_, client := serve(t, c.opts...)
			mustCreate(t, client, "/w", 0)
			ask(t, client, opAddWatch, addWatch("/w", 1))
			mustCreate(t, client, "/w/a", 0)
			mustCreate(t, client, "/w/a/b", 0)
			ask(t, client, opGetData, watched("/w/a/b", true)) // a watch of the node's own reports the node's path
			ask(t, client, opSetData, setBody("/w/a/b", ""))
			ask(t, client, opDelete, deletion("/w/a/b"))
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
		require.Equal(t, want, testbed.ServerChildren(t, s, "/"))
		require.Empty(t, s.Tree(), "they are not shown")
		if age == "old" {
			continue
		}
		require.Equal(t, []string{"api_version", "config", "feature_flags"}, testbed.ServerChildren(t, s, "/keeper"))
		require.Equal(t, fmt.Sprintf("server.1=%s;participant;1", s.Addr()), testbed.ServerData(t, s, "/keeper/config"))
		require.Equal(t, "2", testbed.ServerData(t, s, "/keeper/api_version"))
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
	require.Equal(t, []string{"keeper", "zookeeper"}, testbed.ServerChildren(t, s, "/"))
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
	s, before := serve(t, zktest.LikeKeeper("old"))
	s.RefuseSessions(true)
	conn := testbed.Must(s.Dial("", "", 0))
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
	require.Error(t, testbed.Err(c.read()), "it closes")
	require.Len(t, s.Sessions(), 1)
	ping(t, before) // who has a session stays
	s.RefuseSessions(false)
	require.Positive(t, raw(t, s, nil).id)
}
