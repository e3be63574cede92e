package modeled_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/compressed"
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

func set[T any](t *testing.T, nodes *modeled.Nodes[T], name string, v T) {
	t.Helper()
	_, err := nodes.Set(testbed.Context(t), name, v)
	require.NoError(t, err)
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

		bob, err := users.Set(ctx, "bob", user{"Bob", 40})
		require.NoError(t, err, "creates")
		require.Zero(t, bob.Version)
		require.NotZero(t, bob.Czxid)
		bob, err = users.Set(ctx, "bob", user{"Bob", 41})
		require.NoError(t, err, "replaces")
		require.EqualValues(t, 1, bob.Version)
		_, err = users.Set(ctx, "ann", user{"Ann", 31}, framework.IfVersion(stat.Version+1))
		require.ErrorIs(t, err, zk.ErrBadVersion)
		stat, err = users.Set(ctx, "ann", user{"Ann", 31}, framework.IfVersion(stat.Version))
		require.NoError(t, err)
		_, err = users.Set(ctx, "carl", user{}, framework.IfVersion(0))
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
		set(t, users, "ann", user{"Ann", 30})
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
		set(t, users, "zoe", user{"Zoe", 9})
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
			_, err = users.Set(ctx, name, user{}, framework.IfVersion(0))
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
		_, err = modeled.New[user](client, "/users", modeled.WithCodec[user](nil))
		require.ErrorIs(t, err, framework.ErrBadArgument)
		_, err = modeled.New[user](client, "/users", modeled.WithCodec(modeled.Compressed[user](nil)))
		require.ErrorIs(t, err, framework.ErrBadArgument)
		_, err = modeled.New[user](client, "/users", nil)
		require.ErrorIs(t, err, framework.ErrBadArgument)
		numbers, err := modeled.New[float64](client, "/numbers")
		require.NoError(t, err)
		_, err = numbers.Set(ctx, "nan", math.NaN())
		require.ErrorIs(t, err, framework.ErrBadValue)
		require.ErrorContains(t, err, "set /numbers/nan: bad value: json: unsupported value")
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
			set(t, other, name, user{name, 1})
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
		users, err := modeled.New[user](client, "/users", modeled.WithCodec[user](silent{}))
		require.NoError(t, err)
		_, err = users.Set(ctx, "ann", user{})
		require.ErrorIs(t, err, framework.ErrBadArgument)
		_, err = client.Create(ctx, "/users/ann", []byte("{}"), framework.ContainerParents())
		require.NoError(t, err)
		_, err = users.Update(ctx, "ann", func(u user) (user, error) { return u, nil })
		require.ErrorIs(t, err, framework.ErrBadArgument)
	})
}

func TestUpdate_CountsEachCallOnce(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, users *modeled.Nodes[user]) {
		ctx := testbed.Context(t)
		set(t, users, "ann", user{"Ann", 0})
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
		set(t, other, "ann", user{"Ann", 0})
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
		set(t, users, "ann", user{"Ann", 30})
		require.Equal(t, pair{user: user{"Ann", 30}}, <-pairs)
		require.NoError(t, server.Set("/users/ann", []byte("{")))
		require.ErrorIs(t, (<-pairs).err, modeled.ErrBadValue)
		set(t, users, "ann", user{"Ann", 31})
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
		set(t, users, "ann", user{"Ann", 30})
		set(t, users, "bob", user{"Bob", 40})
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

func TestWithCreate_SetsACLAndTTL(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		ctx := testbed.Context(t)
		leases, err := modeled.New[user](w.Client(), "/leases", modeled.WithCreate(framework.TTL(time.Minute)))
		require.NoError(t, err)
		require.NoError(t, leases.Create(ctx, "ann", user{"Ann", 30}))
		time.Sleep(5 * time.Minute) // in virtual time
		synctest.Wait()
		require.False(t, w.Server.Exists("/leases/ann"))
		open, err := modeled.New[user](w.Client(), "/open", modeled.WithCreate(framework.ACL(zk.WorldACL(zk.PermRead|zk.PermWrite))))
		require.NoError(t, err)
		set(t, open, "ann", user{"Ann", 30})
		set(t, open, "ann", user{"Ann", 31})
		ann, _, err := open.Get(ctx, "ann")
		require.NoError(t, err)
		require.Equal(t, 31, ann.Age)
	}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
}

// A value would not be found under its name, would disappear with a session, or with the child that
// Update creates beside its write.
func TestNew_RefusesModesThatLoseValues(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		var stat zk.Stat
		for name, o := range map[string]framework.CreateOption{
			"protected":            framework.Protected(),
			"sequential":           framework.As(framework.PersistentSequential),
			"ephemeral sequential": framework.As(framework.EphemeralSequential),
			"ephemeral":            framework.As(framework.Ephemeral),
			"container":            framework.As(framework.Container),
			"unknown":              framework.As(77),
			"TTL":                  framework.TTL(0),
			"OrSet":                framework.OrSet(),
			"Idempotent":           framework.Idempotent(),
			"StatTo":               framework.StatTo(&stat),
			"nil":                  nil,
		} {
			_, err := modeled.New[user](w.Client(), "/users", modeled.WithCreate(o))
			require.ErrorIs(t, err, framework.ErrBadArgument, name)
		}
		_, err := modeled.New[user](w.Client(), "/users", modeled.WithCodec(modeled.JSON[int]{}))
		require.EqualError(t, err, "modeled /users: bad argument: modeled.JSON[int] is not a codec of modeled_test.user")
	})
}

// What Get refuses, no write accepts.
func TestJSON_RefusesNull(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		ctx := testbed.Context(t)
		users, err := modeled.New[*user](w.Client(), "/users")
		require.NoError(t, err)
		require.ErrorIs(t, users.Create(ctx, "ann", nil), modeled.ErrBadValue)
		_, err = users.Set(ctx, "ann", nil)
		require.EqualError(t, err, "set /users/ann: bad value: null is not a value")
		set(t, users, "ann", &user{"Ann", 1})
		_, err = users.Update(ctx, "ann", func(*user) (*user, error) { return nil, nil })
		require.ErrorIs(t, err, modeled.ErrBadValue)
		ann, _, err := users.Get(ctx, "ann")
		require.NoError(t, err)
		require.Equal(t, &user{"Ann", 1}, ann)
	})
}

// A node that is not compressed, has no data, is invalid from the start or cannot be read hides no
// other node, on a client that compresses and on one that does not. A View agrees with List.
func TestNodes_OneBadNodeHidesNoOther(t *testing.T) {
	for _, opts := range [][]framework.Option{nil, {framework.WithCompression()}} {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			ctx, client := testbed.Context(t), w.Client(opts...)
			require.NoError(t, w.Server.Create("/users", []byte("of another program")))
			users, err := modeled.New[user](client, "/users")
			require.NoError(t, err)
			set(t, users, "ann", user{"Ann", 1})
			set(t, users, "zoe", user{"Zoe", 2})
			require.NoError(t, w.Server.Create("/users/bad", []byte(`{"name":,}`)))
			require.NoError(t, w.Server.Create("/users/empty", nil))
			_, err = client.Create(ctx, "/users/secret", []byte(`{}`), framework.ACL(zk.WorldACL(zk.PermAll&^zk.PermRead)))
			require.NoError(t, err)

			list, err := users.List(ctx)
			require.NoError(t, err)
			view, err := users.View(ctx)
			require.NoError(t, err)
			defer view.Close()
			require.Equal(t, []string{"ann", "bad", "secret", "zoe"}, names(list))
			require.ErrorIs(t, list[1].Err, framework.ErrBadValue)
			require.NotZero(t, list[1].Stat.Czxid)
			require.ErrorIs(t, list[2].Err, zk.ErrNoAuth)
			all := slices.Collect(view.All())
			require.Equal(t, []string{"ann", "bad", "zoe"}, names(all))
			for i, entry := range slices.Delete(slices.Clone(list), 2, 3) {
				require.Equal(t, entry.Value, all[i].Value)
				require.Equal(t, entry.Stat, all[i].Stat)
				require.Equal(t, entry.Err == nil, all[i].Err == nil)
			}
			require.ErrorIs(t, all[1].Err, framework.ErrBadValue)

			observed, stop := context.WithCancel(ctx)
			pairs := make(chan error, 10)
			var following sync.WaitGroup
			following.Go(func() {
				for _, err := range users.Observe(observed, "bad") {
					pairs <- err
				}
			})
			require.ErrorIs(t, <-pairs, framework.ErrBadValue)
			set(t, users, "bad", user{"Bob", 3})
			require.NoError(t, <-pairs)
			require.NoError(t, w.Server.Set("/users/bad", []byte("plain")))
			require.ErrorIs(t, <-pairs, framework.ErrBadValue)
			_, err = client.SetACL(ctx, "/users/bad", zk.WorldACL(zk.PermAll&^zk.PermRead))
			require.NoError(t, err)
			set(t, users, "bad", user{"Bob", 4})
			w.Server.CutConnections() // no event reports it
			require.ErrorIs(t, <-pairs, zk.ErrNoAuth)
			time.Sleep(5 * time.Second) // in virtual time
			_, err = client.SetACL(ctx, "/users/bad", zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			require.NoError(t, <-pairs, "once a minute it is read again")
			stop()
			require.ErrorIs(t, <-pairs, context.Canceled)
			following.Wait()
			require.Empty(t, pairs)
		})
	}
}

func names(entries []modeled.Entry[user]) (names []string) {
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// The caller may change what a View returns.
func TestView_ValuesShareNoMemory(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		ctx := testbed.Context(t)
		tags, err := modeled.New[map[string][]string](w.Client(), "/tags")
		require.NoError(t, err)
		set(t, tags, "ann", map[string][]string{"a": {"b"}})
		raw, err := modeled.New[[]byte](w.Client(), "/raw", modeled.WithCodec(bytesCodec{}))
		require.NoError(t, err)
		set(t, raw, "ann", []byte("text"))
		tagged, err := tags.View(ctx)
		require.NoError(t, err)
		defer tagged.Close()
		texts, err := raw.View(ctx)
		require.NoError(t, err)
		defer texts.Close()
		for range 2 {
			entry, ok := tagged.Get("ann")
			require.True(t, ok)
			require.Equal(t, map[string][]string{"a": {"b"}}, entry.Value)
			entry.Value["a"][0] = "changed"
			entry.Value["c"] = nil
			for entry := range texts.All() {
				require.Equal(t, "text", string(entry.Value))
				copy(entry.Value, "TEXT")
			}
		}
	})
}

// bytesCodec keeps the data that it decodes.
type bytesCodec struct{}

func (bytesCodec) Encode(v []byte) ([]byte, error)    { return v, nil }
func (bytesCodec) Decode(data []byte) ([]byte, error) { return data, nil }

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
	codec := modeled.WithCodec(modeled.Compressed(modeled.JSON[user]{}))
	t.Run("with the codec", func(t *testing.T) { compresses(t, nil, codec) })
	t.Run("with the client", func(t *testing.T) { compresses(t, []framework.Option{framework.WithCompression()}) })
	t.Run("with both", func(t *testing.T) { compresses(t, []framework.Option{framework.WithCompression()}, codec) })
}

// The limit of the client counts for each codec that compresses, in both directions.
func TestCompressed_TheLimitOfTheClient(t *testing.T) {
	codec := modeled.WithCodec(modeled.Compressed(modeled.JSON[string]{}))
	for name, c := range map[string]struct {
		client []framework.Option
		opts   []modeled.Option
	}{
		"with the codec":  {nil, []modeled.Option{codec}},
		"with the client": {[]framework.Option{framework.WithCompression()}, nil},
		"with both":       {[]framework.Option{framework.WithCompression()}, []modeled.Option{codec}},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
				ctx := testbed.Context(t)
				texts := func(limit int) *modeled.Nodes[string] {
					n, err := modeled.New[string](w.Client(append(c.client, framework.WithMaxDecompressed(limit))...), "/texts", c.opts...)
					require.NoError(t, err)
					return n
				}
				small, large := texts(10_000), texts(40_000_000)
				_, err := small.Set(ctx, "a", strings.Repeat("x", 10_000))
				require.ErrorIs(t, err, framework.ErrTooLarge)
				require.ErrorIs(t, err, modeled.ErrBadValue)
				long := strings.Repeat("x", 20_000_000)
				set(t, large, "a", long)
				got, _, err := large.Get(ctx, "a")
				require.NoError(t, err)
				require.Equal(t, len(long), len(got))
				_, _, err = small.Get(ctx, "a")
				require.ErrorIs(t, err, framework.ErrTooLarge)
				set(t, small, "b", "short")
				all, err := small.List(ctx)
				require.NoError(t, err)
				require.Len(t, all, 2)
				require.ErrorIs(t, all[0].Err, framework.ErrTooLarge)
				view, err := small.View(ctx)
				require.NoError(t, err)
				defer view.Close()
				entry, ok := view.Get("a")
				require.True(t, ok)
				require.ErrorIs(t, entry.Err, framework.ErrTooLarge)
			})
		})
	}
	_, err := modeled.Compressed(modeled.JSON[string]{}).Encode(strings.Repeat("x", 17<<20))
	require.ErrorIs(t, err, framework.ErrTooLarge)
}

// compresses requires that values are compressed once.
func compresses(t *testing.T, client []framework.Option, opts ...modeled.Option) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		ctx := testbed.Context(t)
		users, err := modeled.New[user](w.Client(client...), "/users", opts...)
		require.NoError(t, err)
		long := user{strings.Repeat("a", 1000), 1}
		set(t, users, "ann", long)
		data, err := w.Server.Get("/users/ann")
		require.NoError(t, err)
		require.Less(t, len(data), 100)
		plain, err := compressed.Decode(data)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf(`{"name":%q,"age":1}`, long.Name), string(plain))
		ann, _, err := users.Get(ctx, "ann")
		require.NoError(t, err)
		require.Equal(t, long, ann)
		require.NoError(t, w.Server.Set("/users/ann", []byte(`{"name":"Ann"}`)))
		_, _, err = users.Get(ctx, "ann")
		require.ErrorIs(t, err, modeled.ErrBadValue, "plain data are refused")
	})
}
