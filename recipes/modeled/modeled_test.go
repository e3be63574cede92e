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
func virtual(t *testing.T, test func(*testing.T, *testbed.World, *modeled.Nodes[user]), opts ...zktest.Option) {
	t.Helper()
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) { test(t, w, nodes[user](t, w.Client(), "/users")) }, opts...)
}

func nodes[T any](t *testing.T, client *framework.Client, path string, opts ...modeled.Option) *modeled.Nodes[T] {
	t.Helper()
	n, err := modeled.New[T](client, path, opts...)
	require.NoError(t, err)
	return n
}

func set[T any](t *testing.T, n *modeled.Nodes[T], name string, v T) {
	t.Helper()
	require.NoError(t, testbed.Err(n.Set(testbed.Context(t), name, v)))
}

func get[T any](t *testing.T, n *modeled.Nodes[T], name string) T {
	t.Helper()
	v, _, err := n.Get(testbed.Context(t), name)
	require.NoError(t, err)
	return v
}

func list[T any](t *testing.T, n *modeled.Nodes[T]) []modeled.Entry[T] {
	t.Helper()
	entries, err := n.List(testbed.Context(t))
	require.NoError(t, err)
	return entries
}

// view returns a View that is closed when the test ends.
func view[T any](t *testing.T, n *modeled.Nodes[T]) *modeled.View[T] {
	t.Helper()
	v, err := n.View(testbed.Context(t))
	require.NoError(t, err)
	t.Cleanup(func() { v.Close() })
	return v
}

// same is an update that changes nothing.
func same[T any](v T) (T, error) { return v, nil }

func TestNodes_ReadsWhatItWrites(t *testing.T) {
	virtual(t, func(t *testing.T, w *testbed.World, users *modeled.Nodes[user]) {
		ctx := testbed.Context(t)
		require.Empty(t, list(t, users), "of a missing path")
		_, _, err := users.Get(ctx, "ann")
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.EqualError(t, err, "get /users/ann: zk: node does not exist")

		require.NoError(t, users.Create(ctx, "ann", user{"Ann <a&b>", 30}))
		require.ErrorIs(t, users.Create(ctx, "ann", user{}), zk.ErrNodeExists)
		ann, stat, err := users.Get(ctx, "ann")
		require.NoError(t, err)
		require.Equal(t, user{"Ann <a&b>", 30}, ann)
		require.Equal(t, `{"name":"Ann <a&b>","age":30}`, testbed.ServerData(t, w.Server, "/users/ann"))

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
		require.ErrorIs(t, testbed.Err(users.Set(ctx, "carl", user{}, framework.IfVersion(0))), zk.ErrNoNode)

		entries := list(t, users)
		require.Len(t, entries, 2)
		require.Equal(t, modeled.Entry[user]{Name: "ann", Value: user{"Ann", 31}, Stat: *stat}, entries[0])
		require.Equal(t, user{"Bob", 41}, entries[1].Value)

		require.NoError(t, users.Delete(ctx, "ann"))
		require.ErrorIs(t, users.Delete(ctx, "ann"), zk.ErrNoNode)
		require.NoError(t, users.Delete(ctx, "ann", framework.IfExists()))
	})
}

func TestNodes_ParentsAndBadData(t *testing.T) {
	virtual(t, func(t *testing.T, w *testbed.World, users *modeled.Nodes[user]) {
		ctx := testbed.Context(t)
		set(t, users, "ann", user{"Ann", 30})
		require.NoError(t, w.Server.Create("/users/teams", nil))
		require.NoError(t, w.Server.Create("/users/zoe", []byte("{")))
		require.ErrorIs(t, testbed.Err(users.Get(ctx, "teams")), zk.ErrNoNode, "a parent is not a value")
		_, stat, err := users.Get(ctx, "zoe")
		require.ErrorIs(t, err, modeled.ErrBadValue)
		require.NotNil(t, stat)
		require.NotContains(t, err.Error(), "\n")
		require.ErrorIs(t, testbed.Err(users.Update(ctx, "zoe", same)), modeled.ErrBadValue)
		require.ErrorIs(t, testbed.Err(users.Update(ctx, "teams", same)), zk.ErrNoNode)

		entries := list(t, users)
		require.Len(t, entries, 2)
		require.ErrorIs(t, entries[1].Err, modeled.ErrBadValue)
		set(t, users, "zoe", user{"Zoe", 9})
		get(t, users, "zoe")
	})
}

func TestNodes_RefusesBadArguments(t *testing.T) {
	virtual(t, func(t *testing.T, w *testbed.World, users *modeled.Nodes[user]) {
		ctx := testbed.Context(t)
		for _, name := range []string{"", ".", "..", "a/b", "/a", "a\x00"} {
			require.ErrorIs(t, testbed.Err(users.Get(ctx, name)), framework.ErrBadPath, "%q", name)
			require.ErrorIs(t, users.Create(ctx, name, user{}), framework.ErrBadPath)
			_, err := users.Set(ctx, name, user{}, framework.IfVersion(0))
			require.ErrorIs(t, err, framework.ErrBadPath)
			require.ErrorIs(t, testbed.Err(users.Update(ctx, name, same)), framework.ErrBadPath)
			require.ErrorIs(t, users.Delete(ctx, name), framework.ErrBadPath)
			for _, err := range users.Observe(ctx, name) {
				require.ErrorIs(t, err, framework.ErrBadPath)
			}
		}
		require.ErrorIs(t, testbed.Err(users.Update(ctx, "ann", nil)), framework.ErrBadArgument)
		require.ErrorIs(t, testbed.Err(modeled.New[user](nil, "/users")), framework.ErrBadArgument)
		client := w.Client()
		require.ErrorIs(t, testbed.Err(modeled.New[user](client, "users")), framework.ErrBadPath)
		noCodec := modeled.WithCodec(modeled.Compressed[user](nil))
		for _, opt := range []modeled.Option{nil, modeled.WithCodec[user](nil), noCodec} {
			require.ErrorIs(t, testbed.Err(modeled.New[user](client, "/users", opt)), framework.ErrBadArgument)
		}
		numbers := nodes[float64](t, client, "/numbers")
		_, err := numbers.Set(ctx, "nan", math.NaN())
		require.ErrorIs(t, err, framework.ErrBadValue)
		require.ErrorContains(t, err, "set /numbers/nan: bad value: json: unsupported value")
		require.False(t, w.Server.Exists("/numbers"))
	})
}

func TestList_ReadsManyAtATime(t *testing.T) {
	virtual(t, func(t *testing.T, w *testbed.World, users *modeled.Nodes[user]) {
		require.NoError(t, w.Server.Create("/users", nil))
		for i := range 1000 {
			require.NoError(t, w.Server.Create(fmt.Sprintf("/users/%04d", i), fmt.Appendf(nil, `{"age":%d}`, i)))
		}
		began := time.Now()
		entries := list(t, users)
		require.Less(t, time.Since(began), 300*time.Millisecond, "17 round trips of 10 ms")
		require.Len(t, entries, 1000)
		for i, entry := range entries {
			require.Equal(t, i, entry.Value.Age)
		}
		require.ErrorIs(t, testbed.Err(users.List(testbed.Cancelled(t))), context.Canceled)
	}, zktest.WithLatency(5*time.Millisecond))
}

// Each request of a List fails: it lists all values, or returns an error.
func TestList_EachRequestFails(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		ctx := testbed.Context(t)
		other := nodes[user](t, s.Other, "/users")
		for _, name := range []string{"ann", "bob", "zoe"} {
			set(t, other, name, user{name, 1})
		}
		users := nodes[user](t, s.Subject, "/users")
		if entries, err := users.List(ctx); err == nil {
			require.Len(t, entries, 3)
		}
	})
}

// silent is a codec that returns no data.
type silent struct{ modeled.JSON[user] }

func (silent) Encode(user) ([]byte, error) { return nil, nil }

func TestNodes_RefusesACodecThatReturnsNoData(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		ctx := testbed.Context(t)
		users := nodes[user](t, w.Client(), "/users", modeled.WithCodec[user](silent{}))
		require.ErrorIs(t, testbed.Err(users.Set(ctx, "ann", user{})), framework.ErrBadArgument)
		require.NoError(t, w.Server.Create("/users/ann", []byte("{}")))
		require.ErrorIs(t, testbed.Err(users.Update(ctx, "ann", same)), framework.ErrBadArgument)
	})
}

func TestUpdate_CountsEachCallOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w *testbed.World, users *modeled.Nodes[user]) {
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
		require.Equal(t, 50, get(t, users, "ann").Age)
		require.ErrorIs(t, testbed.Err(users.Update(ctx, "bob", same)), zk.ErrNoNode)
		require.False(t, w.Server.Exists("/users/bob"))
		failure := errors.New("too young")
		_, err := users.Update(ctx, "ann", func(u user) (user, error) { return u, failure })
		require.ErrorIs(t, err, failure)
	})
}

// Each request of an Update fails: the update is applied once, or not at all, or its outcome is
// reported as unknown.
func TestUpdate_EachRequestFails(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		ctx := testbed.Context(t)
		other := nodes[user](t, s.Other, "/users")
		set(t, other, "ann", user{"Ann", 0})
		users := nodes[user](t, s.Subject, "/users")
		updated, err := users.Update(ctx, "ann", func(u user) (user, error) { u.Age++; return u, nil })
		ann := get(t, other, "ann")
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
	virtual(t, func(t *testing.T, w *testbed.World, users *modeled.Nodes[user]) {
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
		require.NoError(t, w.Server.Set("/users/ann", []byte("{")))
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
	virtual(t, func(t *testing.T, w *testbed.World, users *modeled.Nodes[user]) {
		ctx := testbed.Context(t)
		view := view(t, users)
		_, ok := view.Get("ann")
		require.False(t, ok)
		set(t, users, "ann", user{"Ann", 30})
		set(t, users, "bob", user{"Bob", 40})
		require.NoError(t, w.Server.Create("/users/teams", nil))
		require.NoError(t, view.Sync(ctx))
		ann, ok := view.Get("ann")
		require.True(t, ok)
		require.Equal(t, user{"Ann", 30}, ann.Value)
		require.Equal(t, "ann", ann.Name)
		require.Equal(t, []string{"ann", "bob"}, names(slices.Collect(view.All())))
		require.NoError(t, w.Server.Set("/users/ann", []byte("{")))
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
		leases := nodes[user](t, w.Client(), "/leases", modeled.WithCreate(framework.TTL(time.Minute)))
		require.NoError(t, leases.Create(ctx, "ann", user{"Ann", 30}))
		time.Sleep(5 * time.Minute) // in virtual time
		synctest.Wait()
		require.False(t, w.Server.Exists("/leases/ann"))
		open := nodes[user](t, w.Client(), "/open", modeled.WithCreate(framework.ACL(zk.WorldACL(zk.PermRead|zk.PermWrite))))
		set(t, open, "ann", user{"Ann", 30})
		set(t, open, "ann", user{"Ann", 31})
		require.Equal(t, 31, get(t, open, "ann").Age)
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
		users := nodes[*user](t, w.Client(), "/users")
		require.ErrorIs(t, users.Create(ctx, "ann", nil), modeled.ErrBadValue)
		_, err := users.Set(ctx, "ann", nil)
		require.EqualError(t, err, "set /users/ann: bad value: null is not a value")
		set(t, users, "ann", &user{"Ann", 1})
		_, err = users.Update(ctx, "ann", func(*user) (*user, error) { return nil, nil })
		require.ErrorIs(t, err, modeled.ErrBadValue)
		require.Equal(t, &user{"Ann", 1}, get(t, users, "ann"))
	})
}

// A node that is not compressed, has no data, is invalid from the start or cannot be read hides no
// other node, on a client that compresses and on one that does not. A View agrees with List.
func TestNodes_OneBadNodeHidesNoOther(t *testing.T) {
	for _, opts := range [][]framework.Option{nil, {framework.WithCompression()}} {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			ctx, client := testbed.Context(t), w.Client(opts...)
			require.NoError(t, w.Server.Create("/users", []byte("of another program")))
			users := nodes[user](t, client, "/users")
			set(t, users, "ann", user{"Ann", 1})
			set(t, users, "zoe", user{"Zoe", 2})
			require.NoError(t, w.Server.Create("/users/bad", []byte(`{"name":,}`)))
			require.NoError(t, w.Server.Create("/users/empty", nil))
			testbed.Create(t, client, "/users/secret", []byte(`{}`), framework.ACL(zk.WorldACL(zk.PermAll&^zk.PermRead)))

			list, view := list(t, users), view(t, users)
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
			testbed.SetACL(t, client, "/users/bad", zk.WorldACL(zk.PermAll&^zk.PermRead))
			set(t, users, "bad", user{"Bob", 4})
			w.Server.CutConnections() // no event reports it
			require.ErrorIs(t, <-pairs, zk.ErrNoAuth)
			time.Sleep(5 * time.Second) // in virtual time
			testbed.SetACL(t, client, "/users/bad", zk.WorldACL(zk.PermAll))
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
		tags := nodes[map[string][]string](t, w.Client(), "/tags")
		set(t, tags, "ann", map[string][]string{"a": {"b"}})
		raw := nodes[[]byte](t, w.Client(), "/raw", modeled.WithCodec(bytesCodec{}))
		set(t, raw, "ann", []byte("text"))
		tagged, texts := view(t, tags), view(t, raw)
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
		require.Error(t, testbed.Err(modeled.JSON[person]{}.Decode([]byte(text))), text)
	}
	text, err := modeled.JSON[string]{}.Encode("x")
	require.NoError(t, err)
	require.Equal(t, `"x"`, string(text))
}

// compressing runs test with values that are compressed once, by the codec or by the client.
func compressing[T any](t *testing.T, test func(*testing.T, *testbed.World, func(...framework.Option) *modeled.Nodes[T])) {
	codec := modeled.WithCodec(modeled.Compressed(modeled.JSON[T]{}))
	for name, c := range map[string]struct {
		client []framework.Option
		opts   []modeled.Option
	}{
		"with the codec":  {nil, []modeled.Option{codec}},
		"with the client": {[]framework.Option{framework.WithCompression()}, nil},
		"with both":       {[]framework.Option{framework.WithCompression()}, []modeled.Option{codec}},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			test(t, w, func(opts ...framework.Option) *modeled.Nodes[T] {
				return nodes[T](t, w.Client(append(c.client, opts...)...), "/values", c.opts...)
			})
		})
	}
}

func TestCompressed_IsGzipOfTheJSON(t *testing.T) {
	compressing(t, func(t *testing.T, w *testbed.World, of func(...framework.Option) *modeled.Nodes[user]) {
		users, long := of(), user{strings.Repeat("a", 1000), 1}
		set(t, users, "ann", long)
		data := testbed.ServerData(t, w.Server, "/values/ann")
		require.Less(t, len(data), 100)
		plain := testbed.Must(compressed.Decode([]byte(data)))
		require.Equal(t, fmt.Sprintf(`{"name":%q,"age":1}`, long.Name), string(plain))
		require.Equal(t, long, get(t, users, "ann"))
		require.NoError(t, w.Server.Set("/values/ann", []byte(`{"name":"Ann"}`)))
		_, _, err := users.Get(testbed.Context(t), "ann")
		require.ErrorIs(t, err, modeled.ErrBadValue, "plain data are refused")
	})
}

// The limit of the client counts for each codec that compresses, in both directions.
func TestCompressed_TheLimitOfTheClient(t *testing.T) {
	compressing(t, func(t *testing.T, _ *testbed.World, texts func(...framework.Option) *modeled.Nodes[string]) {
		ctx := testbed.Context(t)
		small, large := texts(framework.WithMaxDecompressed(10_000)), texts(framework.WithMaxDecompressed(40_000_000))
		_, err := small.Set(ctx, "a", strings.Repeat("x", 10_000))
		require.ErrorIs(t, err, framework.ErrTooLarge)
		require.ErrorIs(t, err, modeled.ErrBadValue)
		long := strings.Repeat("x", 20_000_000)
		set(t, large, "a", long)
		require.Equal(t, len(long), len(get(t, large, "a")))
		require.ErrorIs(t, testbed.Err(small.Get(ctx, "a")), framework.ErrTooLarge)
		set(t, small, "b", "short")
		all := list(t, small)
		require.Len(t, all, 2)
		require.ErrorIs(t, all[0].Err, framework.ErrTooLarge)
		entry, ok := view(t, small).Get("a")
		require.True(t, ok)
		require.ErrorIs(t, entry.Err, framework.ErrTooLarge)
	})
	_, err := modeled.Compressed(modeled.JSON[string]{}).Encode(strings.Repeat("x", 17<<20))
	require.ErrorIs(t, err, framework.ErrTooLarge)
}
