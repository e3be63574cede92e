package zktest_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// recursive has c notified of all that happens below path.
func recursive(t *testing.T, c *rawClient, path string) {
	t.Helper()
	ask(t, c, opAddWatch, addWatch(path, 1))
}

func ping(t *testing.T, c *rawClient) {
	t.Helper()
	ask(t, c, opPing, nil)
}

func TestNodesAreMadeSetAndDeletedByTheTest(t *testing.T) {
	s, c := serve(t)
	recursive(t, c, "/")
	data := []byte("x")
	require.NoError(t, s.Create("/a/b/c", data))
	data[0] = 'y' // the server has its own
	require.Equal(t, "/a \"\"\n/a/b \"\"\n/a/b/c \"x\"\n", s.Tree())
	require.ErrorIs(t, s.Create("/a/b", nil), zktest.ErrNodeExists)
	require.NoError(t, s.Set("/a/b", []byte("new")))
	require.ErrorIs(t, s.Set("/none", nil), zktest.ErrNoNode)
	require.ErrorContains(t, s.Set("/none", nil), "/none")
	require.ErrorIs(t, s.Delete("/none"), zktest.ErrNoNode)
	require.NoError(t, s.Delete("/a"))
	require.Empty(t, s.Tree())
	ping(t, c)
	require.Equal(t, []string{
		"event 1 /a", "event 1 /a/b", "event 1 /a/b/c", "event 3 /a/b", "event 2 /a/b/c", "event 2 /a/b", "event 2 /a",
	}, c.events, "as if a client had done it")

	for _, path := range []string{"", "a", "/a/", "/a//b", "/."} {
		assert.Error(t, s.Create(path, nil), path)
	}
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		assert.Error(t, s.Delete(path), path)
	}
	owned := mustCreate(t, c, "/owned", 1)
	require.ErrorContains(t, s.Create(owned+"/x/y", nil), "ephemeral")
	require.False(t, s.Exists(owned+"/x"), "all or nothing")
}

func TestFlushEmptiesTheServer(t *testing.T) {
	for name, opts := range map[string][]zktest.Option{"ZooKeeper": nil, "Keeper": {zktest.LikeKeeper("recent")}} {
		t.Run(name, func(t *testing.T) {
			s := zktest.NewServer(t, opts...)
			fresh := testbed.ServerChildren(t, s, "/")
			c := raw(t, s, nil)
			recursive(t, c, "/")
			mustCreate(t, c, "/n-", 2)
			mustCreate(t, c, "/n-0000000000/owned", 1)
			ping(t, c)
			c.events = nil
			s.Flush()
			ping(t, c)
			require.Len(t, c.events, 2)
			require.Equal(t, fresh, testbed.ServerChildren(t, s, "/"))
			require.Equal(t, "/n-0000000000", mustCreate(t, c, "/n-", 2), "the session goes on, and numbers begin anew")
		})
	}
}

func TestADumpCanBeLoaded(t *testing.T) {
	s, c := serve(t, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	require.NoError(t, s.Create("/text", []byte("hello")))
	require.NoError(t, s.Create("/binary", []byte{0xff, 0}))
	require.NoError(t, s.Create("/empty", []byte{}))
	mustCreate(t, c, "/none", 0)
	for range 3 {
		mustCreate(t, c, "/text/n-", 2)
	}
	require.NoError(t, s.Delete("/text/n-0000000001"))
	ask(t, c, opCreateContainer, create("/container", 4))
	ask(t, c, opCreateTTL, createTTL("/ttl", 5000))
	mustCreate(t, c, "/owned", 1)
	ask(t, c, opCreate, creation("/closed", nil, 3, "digest", "no:body", 0))
	limit(t, c, "/text", "count=9")

	dump := s.Dump()
	text := testbed.Must(json.MarshalIndent(dump, "", " "))
	for _, want := range []string{`"text": "hello"`, `"data": "/wA="`, `"ttl": "5s"`, `"container": true`, `"sequence": 3`, `"id": "no:body"`, `"owner": "0x`} {
		require.Contains(t, string(text), want)
	}
	require.NotContains(t, string(text), `"/zookeeper"`)
	var read []zktest.Node
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, dump, read)

	other := zktest.NewServer(t)
	require.NoError(t, other.Create("/text", []byte("old")))
	require.NoError(t, other.Load(read))
	want := slices.DeleteFunc(dump, func(n zktest.Node) bool { return n.Owner != 0 })
	require.Equal(t, want, other.Dump(), "all but what is ephemeral")
	c = raw(t, other, nil)
	require.Equal(t, "/text/n-0000000003", mustCreate(t, c, "/text/n-", 2), "numbers go on")
	require.Equal(t, "count=4,bytes=5", usage(t, other, "/text"))
}

func TestALoadIsAllOrNothing(t *testing.T) {
	s := zktest.NewServer(t)
	require.NoError(t, s.Create("/there", []byte("old")))
	for name, bad := range map[string]zktest.Node{
		"path": {Path: "bad"}, "access list": {Path: "/z", ACL: []zk.ACL{}}, "scheme": {Path: "/z", ACL: []zk.ACL{{Perms: 31, Scheme: "x"}}},
	} {
		err := s.Load([]zktest.Node{bad, {Path: "/new/child"}, {Path: "/there", Data: []byte("new")}})
		assert.ErrorContains(t, err, bad.Path, name)
		assert.Equal(t, "/there \"old\"\n", s.Tree(), name)
	}
	require.NoError(t, s.Load([]zktest.Node{{Path: "/new/child"}, {Path: "/new", Data: []byte("in any order")}}))
	require.Equal(t, "/new \"in any order\"\n/new/child \"\"\n/there \"old\"\n", s.Tree())
}

func TestNodesThatAreWrongInJSON(t *testing.T) {
	for _, text := range []string{`{"ttl":"x"}`, `{"ttl":"-1s"}`, `{"owner":"x"}`, `{"text":"a","data":"YQ=="}`, `[]`, `{"txt":"a"}`} {
		assert.Error(t, json.Unmarshal([]byte(text), new(zktest.Node)), text)
	}
	var n zktest.Node
	require.NoError(t, json.Unmarshal([]byte(`{"path":"/a","ttl":"1m","owner":"0xff00000000000001"}`), &n))
	require.Equal(t, zktest.Node{Path: "/a", TTL: time.Minute, Owner: -0xffffffffffffff}, n)
	text := testbed.Must(json.Marshal(n))
	require.JSONEq(t, `{"path":"/a","ttl":"1m0s","owner":"0xff00000000000001"}`, string(text))
}
