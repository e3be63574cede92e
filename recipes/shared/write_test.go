package shared_test

import (
	"context"
	"encoding/binary"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// noChildren waits until everything in progress has ended, and checks that no child is left.
func noChildren(t *testing.T, server *zktest.Server, path string) {
	t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	require.Empty(t, testbed.ServerChildren(t, server, path))
}

// TestUpdateWithAnyRequestFailing counts: an update is done once, or its error says that the
// outcome is unknown, which only the end of a session excuses.
func TestUpdateWithAnyRequestFailing(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		v, other := int64s(t, s.Subject, "/deep/down/n"), int64s(t, s.Other, "/deep/down/n")
		least, most := int64(0), int64(0)
		for range 3 {
			_, err := v.Update(testbed.Context(t), plus(1))
			testbed.Listed(t, v, "Update", err)
			if err == nil {
				least, most = least+1, most+1
			} else {
				require.True(t, retry.Unknown(err), "%v", err)
				require.True(t, s.Expires, "a lost reply is recognised: %v", err)
				most++
			}
			add(t, other, 1)
			least, most = least+1, most+1
		}
		x := get(t, other)
		require.LessOrEqual(t, least, x)
		require.LessOrEqual(t, x, most)
		noChildren(t, s.Server, "/deep/down/n")
		require.Equal(t, []string{"n"}, testbed.ServerChildren(t, s.Server, "/deep/down"))
	})
}

func TestSetAndSwapWithAnyRequestFailing(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		ctx := testbed.Context(t)
		v := int64s(t, s.Subject, "/n")
		allowed := func(err error) {
			t.Helper()
			if err != nil {
				require.True(t, s.Expires && retry.Unknown(err), "%v", err)
			}
		}
		allowed(v.CompareAndSwap(ctx, shared.Version{}, 1))
		version := versionOf(t, v)
		if version.Exists() { // otherwise the outcome was unknown, and it was not done
			require.EqualValues(t, 1, get(t, v))
		}
		allowed(v.CompareAndSwap(ctx, version, 2))
		err := v.Set(ctx, 3)
		allowed(testbed.Listed(t, v, "Set", err))
		if x := get(t, v); err == nil {
			require.EqualValues(t, 3, x)
		}
		stat := testbed.ServerStat(t, s.Server, "/n")
		require.LessOrEqual(t, stat.Version, int32(2), "no write was done twice")
		noChildren(t, s.Server, "/n")
	})
}

// TestReserveWithAnyRequestFailing gives no number out twice, and none of a write
// of unknown outcome.
func TestReserveWithAnyRequestFailing(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		v, other := int64s(t, s.Subject, "/n"), int64s(t, s.Other, "/n")
		next := int64(0)
		for range 3 {
			for _, v := range []*shared.Value[int64]{v, other} {
				first, err := shared.Reserve(testbed.Context(t), v, 10)
				require.NoError(t, err)
				require.GreaterOrEqual(t, first, next)
				next = first + 10
			}
		}
		require.LessOrEqual(t, next, int64(70), "at most one block is left out")
	})
}

// TestAnEqualWriteOfAnotherIsNotTakenForOurs: two clients write the same bytes from the same
// version, and the request of one of them is lost. The value alone cannot say whose write was done.
func TestAnEqualWriteOfAnotherIsNotTakenForOurs(t *testing.T) {
	for _, fault := range []zktest.Fault{zktest.FailBefore, zktest.LoseReply} {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			c := w.Client()
			v, other := two(t, w, c, "/n")
			require.NoError(t, v.Set(testbed.Context(t), 5))
			session := testbed.Session(t, c)
			calls := 0
			var injected *zktest.Injection
			x, err := v.Update(testbed.Context(t), func(x int64) (int64, error) {
				if calls++; calls == 1 {
					add(t, other, 1)
					injected = w.Server.Inject(fault, 0, zktest.OnOp("multi"), zktest.OnPath("/n"), zktest.OnSession(session.ID()))
				}
				return x + 1, nil
			})
			require.NoError(t, err)
			require.EqualValues(t, 7, x)
			require.Equal(t, 2, calls)
			require.True(t, injected.Met())
			require.EqualValues(t, 7, get(t, other))
		})
	}
}

// TestOvertakenAfterALostReply: our write was done, and another one after it, before we could look.
func TestOvertakenAfterALostReply(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		v, other := two(t, w, c, "/n")
		require.NoError(t, v.Set(testbed.Context(t), 5))
		session := testbed.Session(t, c)
		injected := w.Server.Inject(zktest.LoseReply, 0, zktest.OnOp("multi"), zktest.OnPath("/n"), zktest.OnSession(session.ID()))
		go func() {
			<-injected.Done()
			w.Server.RefuseConnections(true)
			time.Sleep(time.Second)
			// back, so that the value says nothing
			assert.NoError(t, other.Set(context.Background(), 5))
			w.Server.RefuseConnections(false)
		}()
		require.EqualValues(t, 6, add(t, v, 1))
		require.EqualValues(t, 5, get(t, other))
	}, zktest.WithProperties(map[string]string{"tickTime": "1000"}))
}

// TestAnOutcomeThatNobodyKnows: the session has ended, and with it the proof.
func TestAnOutcomeThatNobodyKnows(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		v := int64s(t, w.Client(), "/n")
		require.NoError(t, v.Set(testbed.Context(t), 5))
		w.Server.Inject(zktest.ExpireAfter, 0, zktest.OnOp("multi"), zktest.OnPath("/n"))
		_, err := v.Update(testbed.Context(t), plus(1))
		require.True(t, retry.Unknown(err), "%v", err)
		require.ErrorContains(t, err, "update /n")
		require.EqualValues(t, 6, get(t, v))

		gate := w.Server.BlockReplies(zktest.OnOp("multi"), zktest.OnPath("/n"))
		_, err = v.Update(testbed.Timeout(t, time.Second), plus(1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, retry.Unknown(err))
		gate.Open()
		noChildren(t, w.Server, "/n")
		require.EqualValues(t, 7, get(t, v))
		w.Server.Stop()
		_, err = v.Update(testbed.Context(t), plus(1))
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.False(t, retry.Unknown(err), "nothing was sent")
	})
}

// TestTheProofEndsWithTheSession: the write was done and its reply lost, the repetition was
// refused, and the session ends before we look.
func TestTheProofEndsWithTheSession(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		v := int64s(t, w.Client(), "/n")
		require.NoError(t, v.Set(testbed.Context(t), 5))
		lost := w.Server.Inject(zktest.LoseReply, 0, zktest.OnOp("multi"), zktest.OnPath("/n"))
		ended := w.Server.Inject(zktest.ExpireBefore, 0, zktest.OnOp("exists"), zktest.OnPath("/n/"))
		_, err := v.Update(testbed.Context(t), plus(1))
		require.True(t, retry.Unknown(err), "%v", err)
		require.True(t, lost.Met() && ended.Met())
		require.EqualValues(t, 6, get(t, v))
	})
}

// TestALostReplyOnAKeeper: each lost connection is a lost session there, and the proof lasts a
// while longer.
func TestALostReplyOnAKeeper(t *testing.T) {
	for _, age := range []string{"old", "recent", "new", "newest"} {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			v := int64s(t, w.Client(), "/deep/down/n")
			require.NoError(t, v.Set(testbed.Context(t), 0))
			for n := range int64(3) {
				injected := w.Server.Inject(zktest.LoseReply, 0, zktest.OnOp("multi"), zktest.OnPath("/deep/down/n"))
				require.Equal(t, n+1, add(t, v, 1))
				require.True(t, injected.Met())
			}
			noChildren(t, w.Server, "/deep/down/n")
		}, zktest.LikeKeeper(age))
	}
}

// overtaken has another client change the node before the server carries out a write of v, and
// returns the error of that write.
func overtaken(t *testing.T, server *zktest.Server, client *framework.Client, write func() error, change func()) error {
	t.Helper()
	session := testbed.Session(t, client)
	gate := server.Block(zktest.OnOp("multi"), zktest.OnPath("/n"), zktest.OnSession(session.ID()))
	done := testbed.Go(write)
	testbed.Receive(t, gate.Arrived(), "the write")
	change()
	gate.Open()
	return testbed.Receive(t, done, "the end of the write")
}

// TestASetWritesWhateverTheVersion (CUR-VAL-09) has another client write just before. The first
// request is carried out, and nothing is read.
func TestASetWritesWhateverTheVersion(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		v, other := two(t, w, c, "/n")
		require.NoError(t, v.Set(t.Context(), 1))
		w.Server.ResetCounts()
		require.NoError(t, overtaken(t, w.Server, c, func() error { return v.Set(t.Context(), 3) }, func() {
			require.NoError(t, other.Set(t.Context(), 2))
		}))
		require.Zero(t, w.Server.Requests().Requests["getData"])
		require.Equal(t, 2, w.Server.Requests().Requests["multi"], "one of each")
		require.EqualValues(t, 3, get(t, v))
		stat := testbed.ServerStat(t, w.Server, "/n")
		require.EqualValues(t, 2, stat.Version, "each is written once")
	})
}

// TestASwapIsDecidedByTheServer has another client write, delete or create the node between the
// look at the version and the write.
func TestASwapIsDecidedByTheServer(t *testing.T) {
	type change func(t *testing.T, other *shared.Value[int64], server *zktest.Server)
	set := func(n int64) change {
		return func(t *testing.T, other *shared.Value[int64], _ *zktest.Server) {
			require.NoError(t, other.Set(t.Context(), n))
		}
	}
	nothing := func(*testing.T, *shared.Value[int64], *zktest.Server) {}
	deletes := func(t *testing.T, _ *shared.Value[int64], server *zktest.Server) {
		require.NoError(t, server.Delete("/n"))
	}
	for name, c := range map[string]struct {
		begins, changes change
		now             int64
		exists          bool
	}{
		"written": {set(1), set(2), 2, true},
		"deleted": {set(1), deletes, 0, false},
		"created": {nothing, set(2), 2, true},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			subject := w.Client()
			v, other := two(t, w, subject, "/n")
			c.begins(t, other, w.Server)
			time.Sleep(time.Second) // virtual time, in which the child of the write is deleted
			before := versionOf(t, v)
			require.ErrorIs(t, overtaken(t, w.Server, subject, func() error { return v.CompareAndSwap(t.Context(), before, 10) }, func() {
				synctest.Wait()
				c.changes(t, other, w.Server)
			}), shared.ErrChanged)
			require.Equal(t, c.now, get(t, v))
			require.Equal(t, c.exists, versionOf(t, v).Exists())
		})
	}
}

// The servers take version -1 for any: a conditional write would overwrite what another client has
// written.
func TestValue_Version(t *testing.T) { // Curator's IllegalTrySetVersionException
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		require.NoError(t, w.Server.Create("/v", []byte("first")))
		// as after 2^32-1 writes
		stop := w.Server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
			binary.BigEndian.PutUint32(answer[len(answer)-68+32:], math.MaxUint32)
			return answer
		}, zktest.OnOp("getData"), zktest.OnPath("/v"))
		v := testbed.Must(shared.Bytes(w.Client(), "/v"))
		before := versionOf(t, v)
		require.NoError(t, w.Server.Set("/v", []byte("of another client")))
		require.ErrorIs(t, v.CompareAndSwap(t.Context(), before, []byte("lost")), shared.ErrChanged)
		err := v.CompareAndSwap(t.Context(), versionOf(t, v), []byte("lost"))
		require.ErrorIs(t, err, shared.ErrVersion)
		require.False(t, retry.Unknown(err))
		_, err = v.Update(t.Context(), func([]byte) ([]byte, error) {
			t.Error("nothing can be written")
			return nil, nil
		})
		require.ErrorIs(t, err, shared.ErrVersion)
		require.Equal(t, "of another client", testbed.ServerData(t, w.Server, "/v"))
		require.NoError(t, v.Set(t.Context(), []byte("next")))
		stop()
		_, err = v.Update(t.Context(), func(b []byte) ([]byte, error) { return append(b, '!'), nil })
		require.NoError(t, err)
	})
}

// kazoo's Counter creates its node without data.
func TestNumbers_WithoutData(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		require.NoError(t, w.Server.Create("/n", nil))
		x, err := int32s(t, client, "/n").Update(t.Context(), func(x int32) (int32, error) { return x + 1, nil })
		require.NoError(t, err)
		require.EqualValues(t, 1, x)
		require.NoError(t, w.Server.Set("/n", nil))
		require.EqualValues(t, 1, add(t, int64s(t, client, "/n"), 1))
	})
}
