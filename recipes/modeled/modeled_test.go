package modeled_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/modeled"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type user struct {
	Name string `json:"name"`
	Age  int    `json:"age"`
}

// virtual runs test with users below /users, in virtual time.
func virtual(t *testing.T, test func(t *testing.T, server *zktest.Server, users *modeled.Nodes[user])) {
	t.Helper()
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		users, err := modeled.New[user](w.Client(), "/users")
		require.NoError(t, err)
		test(t, w.Server, users)
	})
}

func TestNodes_ReadsWhatItWrites(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, users *modeled.Nodes[user]) {
		ctx := testbed.Context(t)
		entries, err := users.List(ctx)
		require.NoError(t, err)
		require.Empty(t, entries, "of a missing path")
		_, _, err = users.Get(ctx, "ann")
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.EqualError(t, err, "get /users/ann: zk: node does not exist")

		require.NoError(t, users.Create(ctx, "ann", user{"Ann <a&b>", 30}))
		require.ErrorIs(t, users.Create(ctx, "ann", user{}), zk.ErrNodeExists)
		ann, stat, err := users.Get(ctx, "ann")
		require.NoError(t, err)
		require.Equal(t, user{"Ann <a&b>", 30}, ann)
		data, err := server.Get("/users/ann")
		require.NoError(t, err)
		require.Equal(t, `{"name":"Ann <a&b>","age":30}`, string(data))

		require.NoError(t, users.Set(ctx, "bob", user{"Bob", 40}), "creates")
		require.NoError(t, users.Set(ctx, "bob", user{"Bob", 41}), "replaces")
		_, err = users.SetIf(ctx, "ann", stat.Version+1, user{"Ann", 31})
		require.ErrorIs(t, err, zk.ErrBadVersion)
		stat, err = users.SetIf(ctx, "ann", stat.Version, user{"Ann", 31})
		require.NoError(t, err)
		_, err = users.SetIf(ctx, "carl", 0, user{})
		require.ErrorIs(t, err, zk.ErrNoNode)

		entries, err = users.List(ctx)
		require.NoError(t, err)
		require.Len(t, entries, 2)
		require.Equal(t, modeled.Entry[user]{Name: "ann", Value: user{"Ann", 31}, Stat: *stat}, entries[0])
		require.Equal(t, user{"Bob", 41}, entries[1].Value)

		require.NoError(t, users.Delete(ctx, "ann"))
		require.ErrorIs(t, users.Delete(ctx, "ann"), zk.ErrNoNode)
		require.NoError(t, users.Delete(ctx, "ann", framework.IfExists()))
	})
}

func TestNodes_ParentsAndBadData(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, users *modeled.Nodes[user]) {
		ctx := testbed.Context(t)
		require.NoError(t, users.Set(ctx, "ann", user{"Ann", 30}))
		require.NoError(t, server.Create("/users/teams", nil))
		require.NoError(t, server.Create("/users/zoe", []byte("{")))
		_, _, err := users.Get(ctx, "teams")
		require.ErrorIs(t, err, zk.ErrNoNode, "a parent is not a value")
		_, stat, err := users.Get(ctx, "zoe")
		require.ErrorIs(t, err, modeled.ErrBadValue)
		require.NotNil(t, stat)
		require.NotContains(t, err.Error(), "\n")
		_, err = users.Update(ctx, "zoe", func(u user) (user, error) { return u, nil })
		require.ErrorIs(t, err, modeled.ErrBadValue)
		_, err = users.Update(ctx, "teams", func(u user) (user, error) { return u, nil })
		require.ErrorIs(t, err, zk.ErrNoNode)

		entries, err := users.List(ctx)
		require.NoError(t, err)
		require.Len(t, entries, 2)
		require.ErrorIs(t, entries[1].Err, modeled.ErrBadValue)
		require.NoError(t, users.Set(ctx, "zoe", user{"Zoe", 9}), "repairs it")
		_, _, err = users.Get(ctx, "zoe")
		require.NoError(t, err)
	})
}

func TestNodes_RefusesBadArguments(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, users *modeled.Nodes[user]) {
		ctx := testbed.Context(t)
		for _, name := range []string{"", ".", "..", "a/b", "/a", "a\x00"} {
			_, _, err := users.Get(ctx, name)
			require.ErrorIs(t, err, framework.ErrBadPath, "%q", name)
			require.ErrorIs(t, users.Create(ctx, name, user{}), framework.ErrBadPath)
			require.ErrorIs(t, users.Set(ctx, name, user{}), framework.ErrBadPath)
			_, err = users.SetIf(ctx, name, 0, user{})
			require.ErrorIs(t, err, framework.ErrBadPath)
			_, err = users.Update(ctx, name, func(u user) (user, error) { return u, nil })
			require.ErrorIs(t, err, framework.ErrBadPath)
			require.ErrorIs(t, users.Delete(ctx, name), framework.ErrBadPath)
			for _, err := range users.Observe(ctx, name) {
				require.ErrorIs(t, err, framework.ErrBadPath)
			}
		}
		_, err := users.Update(ctx, "ann", nil)
		require.ErrorIs(t, err, framework.ErrBadArgument)
		_, err = modeled.New[user](nil, "/users")
		require.ErrorIs(t, err, framework.ErrBadArgument)
		client, err := framework.New(server.Servers(), framework.WithDialer(server.DialContext))
		require.NoError(t, err)
		defer client.Close()
		_, err = modeled.New[user](client, "users")
		require.ErrorIs(t, err, framework.ErrBadPath)
		_, err = modeled.New(client, "/users", modeled.WithCodec[user](nil))
		require.ErrorIs(t, err, framework.ErrBadArgument)
		_, err = modeled.New(client, "/users", modeled.WithCodec(modeled.Compressed[user](nil)))
		require.ErrorIs(t, err, framework.ErrBadArgument)
		_, err = modeled.New[user](client, "/users", nil)
		require.ErrorIs(t, err, framework.ErrBadArgument)
		numbers, err := modeled.New[float64](client, "/numbers")
		require.NoError(t, err)
		require.ErrorContains(t, numbers.Set(ctx, "nan", math.NaN()), "set /numbers/nan: json: unsupported value")
		require.False(t, server.Exists("/numbers"))
	})
}

func TestList_ReadsManyAtATime(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		ctx := testbed.Context(t)
		users, err := modeled.New[user](w.Client(), "/users")
		require.NoError(t, err)
		require.NoError(t, w.Server.Create("/users", nil))
		for i := range 1000 {
			require.NoError(t, w.Server.Create(fmt.Sprintf("/users/%04d", i), fmt.Appendf(nil, `{"age":%d}`, i)))
		}
		_, err = users.List(ctx) // connects
		require.NoError(t, err)
		began := time.Now()
		entries, err := users.List(ctx)
		require.NoError(t, err)
		require.Less(t, time.Since(began), 300*time.Millisecond, "17 round trips of 10 ms")
		require.Len(t, entries, 1000)
		for i, entry := range entries {
			require.Equal(t, i, entry.Value.Age)
		}
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		_, err = users.List(canceled)
		require.ErrorIs(t, err, context.Canceled)
	}, zktest.WithLatency(5*time.Millisecond))
}

// Each request of a List fails: it lists all values, or returns an error.
func TestList_EachRequestFails(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		ctx := testbed.Context(t)
		other, err := modeled.New[user](s.Other, "/users")
		require.NoError(t, err)
		for _, name := range []string{"ann", "bob", "zoe"} {
			require.NoError(t, other.Set(ctx, name, user{name, 1}))
		}
		users, err := modeled.New[user](s.Subject, "/users")
		require.NoError(t, err)
		if entries, err := users.List(ctx); err == nil {
			require.Len(t, entries, 3)
		}
	})
}

// silent is a codec that returns no data.
type silent struct{ modeled.JSON[user] }

func (silent) Encode(user) ([]byte, error) { return nil, nil }

func TestNodes_RefusesACodecThatReturnsNoData(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, _ *modeled.Nodes[user]) {
		ctx := testbed.Context(t)
		client, err := framework.New(server.Servers(), framework.WithDialer(server.DialContext))
		require.NoError(t, err)
		defer client.Close()
		users, err := modeled.New(client, "/users", modeled.WithCodec[user](silent{}))
		require.NoError(t, err)
		require.ErrorIs(t, users.Set(ctx, "ann", user{}), framework.ErrBadArgument)
		_, err = client.Create(ctx, "/users/ann", []byte("{}"), framework.ContainerParents())
		require.NoError(t, err)
		_, err = users.Update(ctx, "ann", func(u user) (user, error) { return u, nil })
		require.ErrorIs(t, err, framework.ErrBadArgument)
	})
}

func TestUpdate_CountsEachCallOnce(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, users *modeled.Nodes[user]) {
		ctx := testbed.Context(t)
		require.NoError(t, users.Set(ctx, "ann", user{"Ann", 0}))
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for range 5 {
					_, err := users.Update(ctx, "ann", func(u user) (user, error) { u.Age++; return u, nil })
					require.NoError(t, err)
				}
			})
		}
		all.Wait()
		ann, _, err := users.Get(ctx, "ann")
		require.NoError(t, err)
		require.Equal(t, 50, ann.Age)
		_, err = users.Update(ctx, "bob", func(u user) (user, error) { return u, nil })
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.False(t, server.Exists("/users/bob"))
		failure := errors.New("too young")
		_, err = users.Update(ctx, "ann", func(u user) (user, error) { return u, failure })
		require.ErrorIs(t, err, failure)
	})
}

// Each request of an Update fails: the update is applied once, or not at all, or its outcome is
// reported as unknown.
func TestUpdate_EachRequestFails(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		ctx := testbed.Context(t)
		other, err := modeled.New[user](s.Other, "/users")
		require.NoError(t, err)
		require.NoError(t, other.Set(ctx, "ann", user{"Ann", 0}))
		users, err := modeled.New[user](s.Subject, "/users")
		require.NoError(t, err)
		updated, err := users.Update(ctx, "ann", func(u user) (user, error) { u.Age++; return u, nil })
		ann, _, read := other.Get(ctx, "ann")
		require.NoError(t, read)
		switch {
		case err == nil:
			require.Equal(t, 1, updated.Age)
			require.Equal(t, 1, ann.Age)
		case !retry.Unknown(err):
			require.Zero(t, ann.Age)
		default:
			require.LessOrEqual(t, ann.Age, 1)
		}
	})
}

func TestObserve_FollowsAValue(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, users *modeled.Nodes[user]) {
		ctx, stop := context.WithCancel(testbed.Context(t))
		type pair struct {
			user user
			err  error
		}
		pairs := make(chan pair, 10)
		go func() {
			defer close(pairs)
			for u, err := range users.Observe(ctx, "ann") {
				pairs <- pair{u, err}
			}
		}()
		require.ErrorIs(t, (<-pairs).err, zk.ErrNoNode)
		require.NoError(t, users.Set(ctx, "ann", user{"Ann", 30}))
		require.Equal(t, pair{user: user{"Ann", 30}}, <-pairs)
		require.NoError(t, server.Set("/users/ann", []byte("{")))
		require.ErrorIs(t, (<-pairs).err, modeled.ErrBadValue)
		require.NoError(t, users.Set(ctx, "ann", user{"Ann", 31}))
		require.Equal(t, pair{user: user{"Ann", 31}}, <-pairs)
		require.NoError(t, users.Delete(ctx, "ann"))
		require.ErrorIs(t, (<-pairs).err, zk.ErrNoNode)
		stop()
		require.ErrorIs(t, (<-pairs).err, context.Canceled)
		_, more := <-pairs
		require.False(t, more)
	})
}

func TestView_FollowsAllValues(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, users *modeled.Nodes[user]) {
		ctx := testbed.Context(t)
		view, err := users.View(ctx)
		require.NoError(t, err)
		defer view.Close()
		_, ok := view.Get("ann")
		require.False(t, ok)
		require.NoError(t, users.Set(ctx, "ann", user{"Ann", 30}))
		require.NoError(t, users.Set(ctx, "bob", user{"Bob", 40}))
		require.NoError(t, server.Create("/users/teams", nil))
		require.NoError(t, view.Sync(ctx))
		ann, ok := view.Get("ann")
		require.True(t, ok)
		require.Equal(t, user{"Ann", 30}, ann.Value)
		require.Equal(t, "ann", ann.Name)
		var names []string
		for entry := range view.All() {
			names = append(names, entry.Name)
		}
		require.Equal(t, []string{"ann", "bob"}, names)
		require.NoError(t, server.Set("/users/ann", []byte("{")))
		require.NoError(t, view.Sync(ctx))
		ann, ok = view.Get("ann")
		require.True(t, ok)
		require.Equal(t, user{"Ann", 30}, ann.Value, "the last good one")
		require.ErrorIs(t, ann.Err, modeled.ErrBadValue)
		require.NoError(t, users.Delete(ctx, "bob"))
		require.NoError(t, view.Sync(ctx))
		_, ok = view.Get("bob")
		require.False(t, ok)
		require.NoError(t, view.Close())
		require.ErrorIs(t, view.Sync(ctx), framework.ErrEnded)
	})
}

func TestWithCreate_SetsModeAndTTL(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		ctx := testbed.Context(t)
		presence, err := modeled.New(w.Client(), "/presence", modeled.WithCreate[user](framework.As(framework.Ephemeral)))
		require.NoError(t, err)
		require.NoError(t, presence.Set(ctx, "ann", user{"Ann", 30}))
		stat, err := w.Server.Stat("/presence/ann")
		require.NoError(t, err)
		require.NotZero(t, stat.EphemeralOwner)
		_, err = presence.Update(ctx, "ann", func(u user) (user, error) { return u, nil })
		require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
		leases, err := modeled.New(w.Client(), "/leases", modeled.WithCreate[user](framework.TTL(time.Minute)))
		require.NoError(t, err)
		require.NoError(t, leases.Create(ctx, "ann", user{"Ann", 30}))
		time.Sleep(5 * time.Minute) // in virtual time
		synctest.Wait()
		require.False(t, w.Server.Exists("/leases/ann"))
	}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
}

// TestJSON_Java reads a model as Curator 5.9's ModeledFramework writes it, and what Jackson
// tolerates.
func TestJSON_Java(t *testing.T) {
	type person struct {
		ID     string   `json:"id"`
		Age    int      `json:"age"`
		Ratio  float64  `json:"ratio"`
		Whole  float64  `json:"whole"`
		Big    int64    `json:"big"`
		Bytes  []byte   `json:"bytes"`
		When   int64    `json:"when"`
		Kind   string   `json:"kind"`
		HTML   string   `json:"html"`
		Active bool     `json:"active"`
		Opt    *string  `json:"opt"`
		List   []string `json:"-"`
	}
	written := `{"id":"ann","age":30,"nothing":null,"ratio":0.1,"whole":3.0,"big":9223372036854775807,"bytes":"AQL/",` +
		`"when":1700000000123,"kind":"SMALL","list":[{"street":"Älvägen 1","zip":12345}],"map":{"a":1},"dec":1.50,"opt":null,` +
		"\"html\":\"<a href=\\\"x\\\">&'\u2028\\u0001/é\\uD83D\\uDE00\",\"active\":true}"
	want := person{
		ID: "ann", Age: 30, Ratio: 0.1, Whole: 3, Big: math.MaxInt64, Bytes: []byte{1, 2, 255}, When: 1700000000123, Kind: "SMALL",
		HTML: "<a href=\"x\">&'\u2028\x01/é😀", Active: true,
	}
	for _, text := range []string{written, "\ufeff" + written, written + " trailing"} {
		got, err := modeled.JSON[person]{}.Decode([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"null", "", "{", "[]", `{"age":"x"}`} {
		_, err := modeled.JSON[person]{}.Decode([]byte(text))
		require.Error(t, err, text)
	}
	text, err := modeled.JSON[string]{}.Encode("x")
	require.NoError(t, err)
	require.Equal(t, `"x"`, string(text))
}

func TestCompressed_IsGzipOfTheJSON(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		ctx := testbed.Context(t)
		users, err := modeled.New(w.Client(), "/users", modeled.WithCodec(modeled.Compressed[user](modeled.JSON[user]{})))
		require.NoError(t, err)
		long := user{strings.Repeat("a", 1000), 1}
		require.NoError(t, users.Set(ctx, "ann", long))
		data, err := w.Server.Get("/users/ann")
		require.NoError(t, err)
		require.Less(t, len(data), 100)
		ann, _, err := users.Get(ctx, "ann")
		require.NoError(t, err)
		require.Equal(t, long, ann)
		require.NoError(t, w.Server.Set("/users/ann", []byte(`{"name":"Ann"}`)))
		_, _, err = users.Get(ctx, "ann")
		require.ErrorIs(t, err, modeled.ErrBadValue, "plain data are refused")
	})
}
