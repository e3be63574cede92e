package cache_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestServersWithoutPersistentWatches finds out by itself what a server can do.
func TestServersWithoutPersistentWatches(t *testing.T) {
	for name, with := range map[string]struct {
		options []zktest.Option
		code    proto.Code // of each answer to addWatch
	}{
		"answers that it does not know them": {code: proto.Unimplemented},
		"has WatchManagerOptimized":          {code: proto.MarshallingError}, // as a ZooKeeper of 3.8.0
		"is a Keeper of 2022":                {options: []zktest.Option{zktest.LikeKeeper("old")}},
		"is a Keeper of 2025":                {options: []zktest.Option{zktest.LikeKeeper("recent")}},
	} {
		for _, step := range []string{"create", "set", "delete"} {
			t.Run(name+", "+step, func(t *testing.T) {
				server := zktest.NewServer(t, with.options...)
				if with.code != proto.OK {
					server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
						binary.BigEndian.PutUint32(answer[16:], uint32(with.code))
						return answer
					}, zktest.OnOp("addWatch"))
				}
				subject, other, _ := pair(t, server)
				create(t, other, "/r", "/r/a", "/r/a/x")
				c := load(t, subject, "/r")
				same(t, other, c)
				changes := follow(t, c)
				changes.want("created /r=/r", "created /r/a=/r/a", "created /r/a/x=/r/a/x")
				switch step {
				case "create":
					create(t, other, "/r/b")
					changes.want("created /r/b=/r/b")
				case "set":
					set(t, other, "/r/a/x", "new")
					changes.want("changed /r/a/x=new")
				case "delete":
					remove(t, other, "/r/a/x")
					changes.want("deleted /r/a/x=/r/a/x")
				}
				require.True(t, c.Stats().StandardWatches)
				set(t, other, "/r/a", "new")
				synced(t, other, c)
			})
		}
	}
}

// TestNodesAreReadTogether counts the requests of a load. What fails for one node, or is not
// answered, harms no other.
func TestNodesAreReadTogether(t *testing.T) {
	const children = 40
	// 16 paths are longer than 1024 bytes, and far shorter than a request may be
	root := "/" + strings.Repeat("r", 100)
	lie := func(code proto.Code, results ...proto.MultiResult) func(*zktest.Server) {
		return func(server *zktest.Server) {
			left := 3 // answers
			server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
				if left--; left < 0 {
					return answer
				}
				// the number of the request, and the zxid
				b := append(proto.Begin(64), answer[4:16]...)
				b = proto.AppendInt32(b, int32(code))
				return proto.Seal((&proto.MultiResponse{Results: results}).Append(b))
			}, zktest.OnOp("multiRead"))
		}
	}
	for name, c := range map[string]struct {
		options []zktest.Option
		client  []framework.Option
		mode    watchMode
		meets   func(*zktest.Server) // before the load
		most    int                  // requests for the children
	}{
		"by ZooKeeper":                   {most: 3},
		"not with standard watches":      {mode: standardWatches, most: 2 * children},
		"not with a request too long":    {client: []framework.Option{framework.WithMaxRequest(1024)}, most: 2 * children},
		"not by a Keeper":                {options: []zktest.Option{zktest.LikeKeeper("recent")}, most: 2 * children},
		"with fewer results than reads":  {meets: lie(proto.OK), most: 3 + children},
		"with results of another kind":   {meets: lie(proto.OK, proto.MultiResult{Op: proto.OpDelete}), most: 3 + children},
		"with a failure that is none":    {meets: lie(proto.OK, proto.MultiResult{Op: proto.OpError}), most: 3 + children},
		"by a server that does not know": {meets: lie(proto.Unimplemented), most: 3 + children},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			server, client := w.Server, w.Client(c.client...)
			require.NoError(t, server.Create(root, nil))
			for n := range children {
				require.NoError(t, server.Create(fmt.Sprintf("%s/%02d", root, n), []byte{byte(n)}))
			}
			private := framework.ACL(zk.DigestACL(zk.PermAll, "somebody", "else"))
			testbed.Create(t, client, root+"/private", nil, private)
			gone := server.Block(zktest.OnPath(root + "/39"))
			if c.meets != nil {
				c.meets(server)
			}
			server.ResetCounts()
			began := time.Now()
			copied := open(t, c.mode.of(client), root)
			testbed.Receive(t, gone.Arrived(), "the read of the last")
			require.NoError(t, server.Delete(root+"/39"))
			gone.Open()
			require.NoError(t, copied.Sync(t.Context()))
			requests := server.Requests().Requests
			require.LessOrEqual(t, requests["getData"]+requests["multiRead"], 1+1+c.most, "the root, and the private one")
			require.EqualValues(t, 1, copied.Stats().Resyncs, "on the same connection")
			if c.meets == nil {
				require.Zero(t, time.Since(began), "virtual time: nothing has failed")
			}
			for n := range children - 1 {
				found, there := copied.Get(fmt.Sprintf("%s/%02d", root, n))
				require.True(t, there)
				require.Equal(t, []byte{byte(n)}, found.Data)
			}
			require.Equal(t, children, copied.Stats().Nodes, "neither deleted nor unreadable nodes")
		}, c.options...)
	}
}

// TestCacheGoesBackToItsPersistentWatch has two connections in a row end right after addWatch was
// sent.
func TestCacheGoesBackToItsPersistentWatch(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	create(t, client, "/r", "/r/a", "/r/b")
	c := load(t, client, "/r")
	require.False(t, c.Stats().StandardWatches)
	first := server.Inject(zktest.FailBefore, 0, zktest.OnOp("addWatch"))
	second := server.Inject(zktest.FailBefore, 0, zktest.OnOp("addWatch"))
	server.CutConnections()
	testbed.Receive(t, first.Done(), "the first cut")
	testbed.Receive(t, second.Done(), "the second cut")
	testbed.Eventually(t, func() bool { return isCurrent(c) }, "the third connection")
	for range 3 { // even on later connections
		require.False(t, c.Stats().StandardWatches)
		synced(t, client, c)
		resyncs := c.Stats().Resyncs
		server.CutConnections()
		testbed.Eventually(t, func() bool { return c.Stats().Resyncs > resyncs }, "the next connection")
	}
}

// TestRootThatChangesInEveryWayFast compares the copy in the end.
func TestRootThatChangesInEveryWayFast(t *testing.T) {
	subject, other, _ := pair(t, zktest.NewServer(t))
	create(t, other, "/r")
	c := load(t, subject, "/r")
	for n := range 300 {
		switch n % 3 {
		case 0:
			set(t, other, "/r", "once")
			set(t, other, "/r", "twice")
		case 1:
			remove(t, other, "/r")
			create(t, other, "/r")
		case 2:
			_, err := other.Multi(testbed.Context(t), &zk.SetDataRequest{Path: "/r", Version: -1}, &zk.SetDataRequest{Path: "/r", Version: -1},
				&zk.DeleteRequest{Path: "/r", Version: -1}, &zk.CreateRequest{Path: "/r", Data: []byte("x")})
			require.NoError(t, err)
		}
	}
	synced(t, other, c)
	require.False(t, c.Stats().StandardWatches)
}

// Netflix#177: few reads for many changes of a node.
func TestBurstOfChangesOfOneNodeIsAHandfulOfReads(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		// Virtual time, in which a read takes as long as the writes that are in flight together.
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			subject, other := w.Client(), w.Client()
			create(t, other, "/r")
			c := load(t, mode.of(subject), "/r")
			before := c.Stats().Reads
			const changes = 10_000
			burst(t, other, "/r", changes)
			synced(t, other, c)
			reads := c.Stats().Reads - before
			t.Logf("%d reads", reads)
			require.Less(t, reads, int64(changes/10))
		}, zktest.WithLatency(time.Millisecond))
	})
}

// burst writes a node n times, many at a time.
func burst(t testing.TB, client *framework.Client, path string, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for i := worker; i < n; i += 16 {
				if _, err := client.Set(context.Background(), path, []byte(fmt.Sprint(i))); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// CUR-CCH-19, CURATOR-690: more children than 16 bits can count.
func TestMoreThan65535Children(t *testing.T) {
	server := zktest.NewServer(t)
	subject := testbed.On(server).Client(t)
	const n = 65_540
	require.NoError(t, server.Create("/r", nil))
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	hash := func(name string) uint32 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(name))
		return h.Sum32()
	}
	// In the order of the server's list, where a name between others takes long with -race.
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(hash(a), hash(b)) })
	for _, name := range names {
		require.NoError(t, server.Create("/r/"+name, nil))
	}
	c := open(t, subject, "/r")
	require.NoError(t, c.Sync(testbed.Context(t)))
	require.Equal(t, n+1, c.Stats().Nodes)
	children := 0
	for range c.Children("/r") {
		children++
	}
	require.Equal(t, n, children)
}

// plant creates a node with n children.
func plant(t testing.TB, client *framework.Client, path string, n int, data []byte) {
	t.Helper()
	require.NoError(t, testbed.Err(client.Create(context.Background(), path, nil)))
	for from := 0; from < n; from += 500 {
		var ops []any
		for i := from; i < min(from+500, n); i++ {
			ops = append(ops, &zk.CreateRequest{Path: fmt.Sprintf("%s/node-%07d", path, i), Data: data})
		}
		_, err := client.Multi(context.Background(), ops...)
		// Then an attempt whose reply was lost has created all of them.
		if !errors.Is(err, zk.ErrNodeExists) {
			require.NoError(t, err)
		}
	}
}
