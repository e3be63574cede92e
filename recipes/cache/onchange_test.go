package cache_test

import (
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

func TestOnChangeGetsEachChangeBeforeSyncReturns(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		client := testbed.InProcess(t).Client(t)
		create(t, client, "/r", "/r/a")
		var seen []string
		c := load(t, mode.of(client), "/r", cache.WithoutData(), cache.WithOnChange(func(ch cache.Change) {
			seen = append(seen, fmt.Sprintf("%v %s=%s", ch.Kind, ch.Path, ch.New.Data))
			require.Nil(t, ch.Old.Data)
			require.Equal(t, ch.Kind != cache.Created, ch.Old.Path != "")
		}))
		want := func(changes ...string) {
			t.Helper()
			require.NoError(t, c.Sync(testbed.Context(t)))
			require.Equal(t, changes, seen)
			seen = nil
		}
		want("created /r=/r", "created /r/a=/r/a")
		for i := range 3 {
			set(t, client, "/r/a", fmt.Sprint(i))
			want(fmt.Sprintf("changed /r/a=%d", i))
		}
		create(t, client, "/r/b")
		want("created /r/b=/r/b")
		remove(t, client, "/r/a", "/r/b")
		require.NoError(t, c.Sync(testbed.Context(t)))
		require.ElementsMatch(t, []string{"deleted /r/a=", "deleted /r/b="}, seen)

		n, found := c.Get("/r")
		require.True(t, found)
		require.Nil(t, n.Data, "data are not kept")
		require.Zero(t, c.Stats().Bytes)
	})
}

func TestOnChangeWithDataHasTheOldOnesToo(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	create(t, client, "/r")
	var seen []string
	c := load(t, client, "/r", cache.WithOnChange(func(ch cache.Change) { seen = append(seen, fmt.Sprintf("%s %s", ch.Old.Data, ch.New.Data)) }))
	set(t, client, "/r", "new")
	require.NoError(t, c.Sync(testbed.Context(t)))
	require.Equal(t, []string{" /r", "/r new"}, seen)
	require.Equal(t, []string{"/r=new"}, show(c))
	require.EqualValues(t, 3, c.Stats().Bytes)
}

// A reader that applies all changes has the tree, with its data, whichever request fails.
func TestWhatOnChangeGotIsTheTree(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
			create(t, s.Other, "/r", "/r/a", "/r/b", "/r/b/x")
			got := map[string]string{}
			c := load(t, mode.of(s.Subject), "/r", cache.WithoutData(), cache.WithOnChange(func(ch cache.Change) {
				if delete(got, ch.Path); ch.Kind != cache.Deleted {
					got[ch.Path] = string(ch.New.Data)
				}
			}))
			want := map[string]string{"/r": "/r", "/r/a": "/r/a", "/r/b": "/r/b", "/r/b/x": "/r/b/x"}
			require.Equal(t, want, got)
			set(t, s.Other, "/r/b/x", "new")
			create(t, s.Other, "/r/c")
			remove(t, s.Other, "/r/a")
			require.NoError(t, c.Sync(testbed.Context(t)))
			maps.Copy(want, map[string]string{"/r/b/x": "new", "/r/c": "/r/c"})
			delete(want, "/r/a")
			require.Equal(t, want, got)
			require.NoError(t, c.Close())
		})
	})
}

// WithOnChange needs the data: a server of before 3.9 would give the stat.
func TestOnChangeDoesNotGetANodeThatMayNotBeRead(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		subject, owner, mine := ownership(w)
		create(t, owner, "/r")
		testbed.Create(t, owner, "/r/secret", nil, framework.ACL(mine))
		var seen []string
		load(t, mode.of(subject), "/r", cache.WithoutData(), cache.WithOnChange(func(ch cache.Change) { seen = append(seen, ch.Path) }))
		require.Equal(t, []string{"/r"}, seen)
	}, zktest.WithVersion("3.8.0"))
}

// TestAPanicOfAFunctionEndsNothingElse, whether of a filter, of WithOnChange or of a decoder.
// CUR-CCH-15
func TestAPanicOfAFunctionEndsNothingElse(t *testing.T) {
	server := zktest.NewServer(t)
	for _, path := range []string{"/c", "/c/bad", "/c/good"} {
		require.NoError(t, server.Create(path, nil))
	}
	var log testbed.Output
	client := testbed.On(server).Client(t, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	angry := func(path string) {
		if path == "/c/bad" {
			panic("no")
		}
	}
	var seen []string
	c := open(t, client, "/c", cache.WithOnChange(func(ch cache.Change) {
		angry(ch.Path)
		seen = append(seen, ch.Path)
	}))
	values, err := cache.NewValues(c, func(n cache.Node) (int, error) {
		angry(n.Path)
		return 7, nil
	})
	require.NoError(t, err)
	require.NoError(t, values.Sync(t.Context()))
	require.Equal(t, []string{"/c", "/c/good"}, seen)
	require.True(t, has(c, "/c/bad"))
	_, there := values.Get("/c/bad")
	require.False(t, there)
	good, there := values.Get("/c/good")
	require.True(t, there)
	require.Equal(t, 7, good.Value)

	filtered := load(t, client, "/c", cache.WithFilter(func(path string) bool {
		angry(path)
		return true
	}))
	require.Equal(t, []string{"/c=", "/c/good="}, show(filtered), "it is left out")
	for _, what := range []string{"function of WithOnChange", "decoder", "filter"} {
		require.Contains(t, log.String(), what+" panicked")
	}
}

// TestAFunctionThatEndsItsGoroutineEndsTheCache, as t.FailNow does: no client waits for it for
// ever.
func TestAFunctionThatEndsItsGoroutineEndsTheCache(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, server.Create("/c/a", nil))
	client := testbed.On(server).Client(t)
	for name, o := range map[string]cache.Option{
		"OnChange": cache.WithOnChange(func(cache.Change) { runtime.Goexit() }),
		"filter":   cache.WithFilter(func(string) bool { runtime.Goexit(); return true }),
	} {
		c := open(t, client, "/c", o)
		require.ErrorIs(t, c.Sync(testbed.Context(t)), framework.ErrEnded, name)
		require.ErrorIs(t, c.Err(), framework.ErrEnded, name)
	}
	c := load(t, client, "/c")
	ended := testbed.Go(func() error { // ends with the cache at the latest
		_, err := cache.NewValues(c, func(cache.Node) (int, error) { runtime.Goexit(); return 0, nil })
		return err
	})
	require.ErrorIs(t, testbed.Receive(t, ended, "the end of NewValues"), framework.ErrEnded)
}
