package cache_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/cache"
)

type limits struct{ Rate int }

// nextValue is the next change of path.
func nextValue(t *testing.T, next chan cache.ValueChange[limits], path string) cache.ValueChange[limits] {
	for {
		if ch := testbed.Receive(t, next, "a change of "+path); ch.Path == path {
			return ch
		}
	}
}

func TestBadValueIsReportedAndTheLastGoodOneKept(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		client := testbed.InProcess(t).Client(t)
		for _, node := range [][2]string{{"/r", ""}, {"/r/a", `{"Rate": 1}`}, {"/r/b", `{`}} {
			testbed.Create(t, client, node[0], []byte(node[1]))
		}
		values := testbed.Must(cache.NewValues(load(t, mode.of(client), "/r"), cache.JSON[limits]))

		v, ok := values.Get("/r/a")
		require.True(t, ok)
		require.Equal(t, limits{1}, v.Value)
		require.NoError(t, v.Err)
		v, ok = values.Get("/r/b")
		require.False(t, ok, "no version could be decoded")
		require.ErrorContains(t, v.Err, "JSON")
		v, ok = values.Get("/r")
		require.False(t, ok)
		require.ErrorIs(t, v.Err, cache.ErrNoValue)
		_, ok = values.Get("/r/c")
		require.False(t, ok)

		changes, end := context.WithCancel(t.Context())
		next := make(chan cache.ValueChange[limits], 100)
		ended := testbed.Go(func() error {
			for ch, err := range values.Changes(changes) {
				if err != nil {
					return err
				}
				next <- ch
			}
			return nil
		})
		require.Equal(t, limits{1}, nextValue(t, next, "/r/a").Value.Value)
		set(t, client, "/r/a", `{"Rate": "fast"}`)
		ch := nextValue(t, next, "/r/a")
		require.Equal(t, cache.Changed, ch.Kind)
		require.Error(t, ch.Value.Err)
		require.Equal(t, limits{1}, ch.Value.Value, "the last good one")
		require.Equal(t, `{"Rate": "fast"}`, string(ch.Value.Node.Data))
		v, ok = values.Get("/r/a")
		require.True(t, ok)
		require.Equal(t, limits{1}, v.Value)
		require.Error(t, v.Err)

		set(t, client, "/r/a", `{"Rate": 2}`)
		ch = nextValue(t, next, "/r/a")
		require.NoError(t, ch.Value.Err)
		require.Equal(t, limits{2}, ch.Value.Value)
		var all []string
		for v := range values.All() {
			all = append(all, v.Node.Path+" "+strconv.Itoa(v.Value.Rate))
		}
		require.Equal(t, []string{"/r/a 2"}, all)

		set(t, client, "/r/a", "")
		require.ErrorIs(t, nextValue(t, next, "/r/a").Value.Err, cache.ErrNoValue)
		_, ok = values.Get("/r/a")
		require.False(t, ok, "nothing is no bad value")

		set(t, client, "/r/a", `{"Rate": 3}`)
		nextValue(t, next, "/r/a")
		remove(t, client, "/r/a")
		require.Equal(t, cache.Deleted, nextValue(t, next, "/r/a").Kind)
		end()
		require.ErrorIs(t, testbed.Receive(t, ended, "the end of the iteration"), context.Canceled)
	})
}

// TestValueOfAnEarlierNodeIsNotKept has a node be recreated with bad data, at once.
func TestValueOfAnEarlierNodeIsNotKept(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	create(t, client, "/r")
	set(t, client, "/r", "7")
	values, err := cache.NewValues(load(t, client, "/r"), func(n cache.Node) (int, error) { return strconv.Atoi(string(n.Data)) })
	require.NoError(t, err)
	set(t, client, "/r", "x")
	require.NoError(t, values.Sync(testbed.Context(t)))
	v, ok := values.Get("/r")
	require.True(t, ok)
	require.Equal(t, 7, v.Value)
	_, err = client.Multi(testbed.Context(t), &zk.DeleteRequest{Path: "/r", Version: -1}, &zk.CreateRequest{Path: "/r", Data: []byte("x")})
	require.NoError(t, err)
	require.NoError(t, values.Sync(testbed.Context(t)))
	v, ok = values.Get("/r")
	require.False(t, ok)
	require.Zero(t, v.Value)
}

func TestEachVersionIsDecodedOnce(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	create(t, client, "/r")
	c := load(t, client, "/r")
	var decoded atomic.Int32
	values, err := cache.NewValues(c, func(n cache.Node) (string, error) {
		decoded.Add(1)
		return string(n.Data), nil
	})
	require.NoError(t, err)
	testbed.Eventually(t, func() bool { return decoded.Load() == 1 }, "it is decoded although nobody has asked")
	for range 10 {
		v, ok := values.Get("/r")
		require.True(t, ok)
		require.Equal(t, "/r", v.Value)
	}
	require.EqualValues(t, 1, decoded.Load())
}

// TestValueThatIsDecodedLateIsTheLastGoodOne has a version be decoded for so long that a bad one
// overtakes it.
func TestValueThatIsDecodedLateIsTheLastGoodOne(t *testing.T) {
	for late, want := range map[string]string{"good": "good", "none": ""} {
		testbed.RunWorld(t, late, func(t *testing.T, w *testbed.World) {
			client := w.Client()
			require.NoError(t, w.Server.Create("/r", []byte("first")))
			c := load(t, client, "/r")
			goOn := make(chan struct{})
			bad := errors.New("bad")
			values, err := cache.NewValues(c, func(n cache.Node) (string, error) {
				switch string(n.Data) {
				case late:
					<-goOn
					if late == "none" {
						return "", cache.ErrNoValue
					}
				case "bad":
					return "", bad
				}
				return string(n.Data), nil
			})
			require.NoError(t, err)
			synctest.Wait()
			set(t, client, "/r", late)
			synctest.Wait()
			set(t, client, "/r", "bad")
			require.NoError(t, c.Sync(testbed.Context(t)))
			v, ok := values.Get("/r")
			require.True(t, ok)
			require.Equal(t, "first", v.Value)
			close(goOn)
			synctest.Wait()
			v, ok = values.Get("/r")
			require.Equal(t, want != "", ok)
			require.Equal(t, want, v.Value)
			require.ErrorIs(t, v.Err, bad)
			require.Equal(t, "bad", string(v.Node.Data))
		})
	}
}

// TestValuesOfNodesThatAreGoneAreNotKept has a node deleted before an earlier iteration reaches it.
func TestValuesOfNodesThatAreGoneAreNotKept(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		create(t, client, "/r", "/r/a", "/r/b", "/r/c")
		values, err := cache.NewValues(load(t, client, "/r"), func(n cache.Node) (string, error) { return string(n.Data), nil })
		require.NoError(t, err)
		gone := func(path string) {
			known := values.Known()
			remove(t, client, path)
			synctest.Wait()
			require.Equal(t, known-1, values.Known())
		}
		synctest.Wait()
		for v := range values.All() {
			if v.Value == "/r/a" {
				gone("/r/b")
			}
		}
		require.Equal(t, 3, values.Known())
		for ch := range values.Changes(t.Context()) {
			if ch.Path == "/r/a" {
				gone("/r/c")
			}
			if ch.Path == "/r/c" {
				require.Equal(t, "/r/c", ch.Value.Value)
				break
			}
		}
		require.Equal(t, 2, values.Known())
	})
}

// TestValuesOfNodesThatAreGoneBeforeTheyAreDecodedAreNotKept has nodes created and deleted while
// the decoder is busy with another value.
func TestValuesOfNodesThatAreGoneBeforeTheyAreDecodedAreNotKept(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		create(t, client, "/r")
		c := load(t, client, "/r")
		goOn := make(chan struct{})
		values, err := cache.NewValues(c, func(n cache.Node) (string, error) {
			if n.Path == "/r/slow" {
				<-goOn
			}
			return string(n.Data), nil
		})
		require.NoError(t, err)
		create(t, client, "/r/slow")
		synctest.Wait()
		for i := range 10 {
			path := "/r/" + strconv.Itoa(i)
			create(t, client, path)
			require.NoError(t, c.Sync(testbed.Context(t)))
			remove(t, client, path)
			require.NoError(t, c.Sync(testbed.Context(t)))
		}
		close(goOn)
		synctest.Wait()
		require.Equal(t, 2, values.Known())
	})
}

// TestSyncOfValuesWaitsForTheDecoder: Get is as new as the cache then.
func TestSyncOfValuesWaitsForTheDecoder(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		create(t, client, "/r")
		c := load(t, client, "/r")
		values, err := cache.NewValues(c, func(n cache.Node) (string, error) {
			time.Sleep(time.Second) // virtual time
			return string(n.Data), nil
		})
		require.NoError(t, err)
		set(t, client, "/r", "new")
		require.NoError(t, values.Sync(testbed.Context(t)))
		v, ok := values.Get("/r")
		require.True(t, ok)
		require.Equal(t, "new", v.Value)

		set(t, client, "/r", "newer")
		require.ErrorIs(t, values.Sync(testbed.Timeout(t, 500*time.Millisecond)), context.DeadlineExceeded)
		require.NoError(t, c.Close())
		require.ErrorIs(t, values.Sync(t.Context()), framework.ErrEnded)
	})
}

func TestValuesNeedData(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	require.ErrorIs(t, testbed.Err(cache.NewValues[limits](nil, cache.JSON[limits])), framework.ErrBadArgument)
	c := load(t, client, "/r", cache.WithoutData())
	require.ErrorIs(t, testbed.Err(cache.NewValues(c, cache.JSON[limits])), framework.ErrBadArgument)
	c = load(t, client, "/r")
	require.ErrorIs(t, testbed.Err(cache.NewValues[limits](c, nil)), framework.ErrBadArgument)
	require.NoError(t, c.Close())
	require.ErrorIs(t, testbed.Err(cache.NewValues(c, cache.JSON[limits])), framework.ErrEnded)
}
