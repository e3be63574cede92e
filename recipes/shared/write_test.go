package shared_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// noChildren lets what is under way come to its end, and checks that no child is left.
func noChildren(t *testing.T, server *zktest.Server, path string) {
	t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	names, err := server.Children(path)
	require.NoError(t, err)
	require.Empty(t, names)
}

// TestUpdateWithAnyRequestFailing counts: an update is done once, or its error says that nobody knows, which only the
// end of a session excuses.
func TestUpdateWithAnyRequestFailing(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		v, other := int64s(t, s.Subject, "/deep/down/n"), int64s(t, s.Other, "/deep/down/n")
		least, most := int64(0), int64(0)
		for range 3 {
			_, err := v.Update(testbed.Context(t), plus(1))
			if err == nil {
				least, most = least+1, most+1
			} else {
				require.True(t, retry.Unknown(err), "%v", err)
				require.True(t, s.Expires, "a lost reply is recognised: %v", err)
				most++
			}
			_, err = other.Update(testbed.Context(t), plus(1))
			require.NoError(t, err)
			least, most = least+1, most+1
		}
		x := get(t, other)
		require.LessOrEqual(t, least, x)
		require.LessOrEqual(t, x, most)
		noChildren(t, s.Server, "/deep/down/n")
		names, err := s.Server.Children("/deep/down")
		require.NoError(t, err)
		require.Equal(t, []string{"n"}, names)
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
		allowed(v.Swap(ctx, shared.Version{}, 1))
		x, version, err := v.Get(ctx)
		require.NoError(t, err)
		if version.Exists() { // else nobody knew, and it was not done
			require.EqualValues(t, 1, x)
		}
		allowed(v.Swap(ctx, version, 2))
		err = v.Set(ctx, 3)
		allowed(err)
		if x = get(t, v); err == nil {
			require.EqualValues(t, 3, x)
		}
		stat, err := s.Server.Stat("/n")
		require.NoError(t, err)
		require.LessOrEqual(t, stat.Version, int32(2), "no write was done twice")
		noChildren(t, s.Server, "/n")
	})
}

// TestReserveWithAnyRequestFailing gives no number out twice, and none of a write that nobody knows of.
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

// TestAnEqualWriteOfAnotherIsNotTakenForOurs: two clients write the same bytes from the same version, and the request of one of
// them is lost. The value alone cannot say whose write was done.
func TestAnEqualWriteOfAnotherIsNotTakenForOurs(t *testing.T) {
	for _, fault := range []zktest.Fault{zktest.FailBefore, zktest.LoseReply} {
		testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
			c := client()
			v, other := int64s(t, c, "/n"), int64s(t, client(), "/n")
			require.NoError(t, v.Set(testbed.Context(t), 5))
			session, err := c.Session(testbed.Context(t))
			require.NoError(t, err)
			calls := 0
			var injected *zktest.Injection
			x, err := v.Update(testbed.Context(t), func(x int64) (int64, error) {
				if calls++; calls == 1 {
					_, err := other.Update(testbed.Context(t), plus(1))
					require.NoError(t, err)
					injected = server.Inject(fault, 0, zktest.OnOp(zktest.OpMulti), zktest.OnPath("/n"), zktest.OnSession(session.ID()))
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
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		c := client()
		v, other := int64s(t, c, "/n"), int64s(t, client(), "/n")
		require.NoError(t, v.Set(testbed.Context(t), 5))
		session, err := c.Session(testbed.Context(t))
		require.NoError(t, err)
		injected := server.Inject(zktest.LoseReply, 0, zktest.OnOp(zktest.OpMulti), zktest.OnPath("/n"), zktest.OnSession(session.ID()))
		go func() {
			<-injected.Done()
			server.RefuseConnections(true)
			time.Sleep(time.Second)
			assert.NoError(t, other.Set(context.Background(), 5)) // back, so that the value says nothing
			server.RefuseConnections(false)
		}()
		x, err := v.Update(testbed.Context(t), plus(1))
		require.NoError(t, err)
		require.EqualValues(t, 6, x)
		require.EqualValues(t, 5, get(t, other))
	}, zktest.WithTick(time.Second))
}

// TestAnOutcomeThatNobodyKnows: the session has ended, and with it the proof.
func TestAnOutcomeThatNobodyKnows(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		v := int64s(t, client(), "/n")
		require.NoError(t, v.Set(testbed.Context(t), 5))
		server.Inject(zktest.ExpireAfter, 0, zktest.OnOp(zktest.OpMulti), zktest.OnPath("/n"))
		_, err := v.Update(testbed.Context(t), plus(1))
		require.True(t, retry.Unknown(err), "%v", err)
		require.ErrorContains(t, err, "update /n")
		require.EqualValues(t, 6, get(t, v))

		gate := server.BlockReplies(zktest.OnOp(zktest.OpMulti), zktest.OnPath("/n"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = v.Update(ctx, plus(1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, retry.Unknown(err))
		gate.Open()
		noChildren(t, server, "/n")
		require.EqualValues(t, 7, get(t, v))
		server.Stop()
		_, err = v.Update(testbed.Context(t), plus(1))
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.False(t, retry.Unknown(err), "nothing was sent")
	})
}

// TestTheProofEndsWithTheSession: the write was done and its reply lost, the repetition was refused, and the session ends before we look.
func TestTheProofEndsWithTheSession(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		v := int64s(t, client(), "/n")
		require.NoError(t, v.Set(testbed.Context(t), 5))
		lost := server.Inject(zktest.LoseReply, 0, zktest.OnOp(zktest.OpMulti), zktest.OnPath("/n"))
		ended := server.Inject(zktest.ExpireBefore, 0, zktest.OnOp(zktest.OpExists), zktest.OnPath("/n/"))
		_, err := v.Update(testbed.Context(t), plus(1))
		require.True(t, retry.Unknown(err), "%v", err)
		require.True(t, lost.Met() && ended.Met())
		require.EqualValues(t, 6, get(t, v))
	})
}

// TestALostReplyOnAKeeper: each lost connection is a lost session there, and the proof lasts a while longer.
func TestALostReplyOnAKeeper(t *testing.T) {
	for _, age := range []zktest.KeeperAge{zktest.KeeperOld, zktest.KeeperRecent, zktest.KeeperNew, zktest.KeeperNewest} {
		testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
			v := int64s(t, client(), "/deep/down/n")
			require.NoError(t, v.Set(testbed.Context(t), 0))
			for n := range int64(3) {
				injected := server.Inject(zktest.LoseReply, 0, zktest.OnOp(zktest.OpMulti), zktest.OnPath("/deep/down/n"))
				x, err := v.Update(testbed.Context(t), plus(1))
				require.NoError(t, err)
				require.Equal(t, n+1, x)
				require.True(t, injected.Met())
			}
			noChildren(t, server, "/deep/down/n")
		}, zktest.LikeKeeper(age))
	}
}

// overtaken has somebody change the node before the server carries out a write of v, and returns the error of that write.
func overtaken(t *testing.T, server *zktest.Server, client *framework.Client, write func() error, change func()) error {
	t.Helper()
	session, err := client.Session(testbed.Context(t))
	require.NoError(t, err)
	gate := server.Block(zktest.OnOp(zktest.OpMulti), zktest.OnPath("/n"), zktest.OnSession(session.ID()))
	done := make(chan error, 1)
	go func() { done <- write() }()
	testbed.Receive(t, gate.Arrived(), "the write")
	change()
	gate.Open()
	return testbed.Receive(t, done, "the end of the write")
}

// TestASetWritesWhateverTheVersion has somebody else write just before. The first request is carried out, and nothing is read.
func TestASetWritesWhateverTheVersion(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		c := client()
		v, other := int64s(t, c, "/n"), int64s(t, client(), "/n")
		require.NoError(t, v.Set(t.Context(), 1))
		server.ResetCounts()
		require.NoError(t, overtaken(t, server, c, func() error { return v.Set(t.Context(), 3) }, func() {
			require.NoError(t, other.Set(t.Context(), 2))
		}))
		require.Zero(t, server.Requests().Requests[zktest.OpGetData])
		require.Equal(t, 2, server.Requests().Requests[zktest.OpMulti], "one of each")
		require.EqualValues(t, 3, get(t, v))
		stat, err := server.Stat("/n")
		require.NoError(t, err)
		require.EqualValues(t, 2, stat.Version, "each is written once")
	})
}

// TestASwapIsDecidedByTheServer has somebody write, delete or create the node between the look at the version and the write.
func TestASwapIsDecidedByTheServer(t *testing.T) {
	for name, c := range map[string]struct {
		begins, changes func(t *testing.T, other *shared.Value[int64], server *zktest.Server)
		now             int64
		exists          bool
	}{
		"written": {
			func(t *testing.T, other *shared.Value[int64], _ *zktest.Server) {
				require.NoError(t, other.Set(t.Context(), 1))
			},
			func(t *testing.T, other *shared.Value[int64], _ *zktest.Server) {
				require.NoError(t, other.Set(t.Context(), 2))
			},
			2, true,
		},
		"deleted": {
			func(t *testing.T, other *shared.Value[int64], _ *zktest.Server) {
				require.NoError(t, other.Set(t.Context(), 1))
			},
			func(t *testing.T, _ *shared.Value[int64], server *zktest.Server) {
				require.NoError(t, server.Delete("/n"))
			},
			0, false,
		},
		"created": {
			func(*testing.T, *shared.Value[int64], *zktest.Server) {},
			func(t *testing.T, other *shared.Value[int64], _ *zktest.Server) {
				require.NoError(t, other.Set(t.Context(), 2))
			},
			2, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
				subject := client()
				v, other := int64s(t, subject, "/n"), int64s(t, client(), "/n")
				c.begins(t, other, server)
				time.Sleep(time.Second) // virtual time, in which the child of the write goes
				_, version, err := v.Get(t.Context())
				require.NoError(t, err)
				err = overtaken(t, server, subject, func() error { return v.Swap(t.Context(), version, 10) }, func() {
					time.Sleep(time.Second)
					c.changes(t, other, server)
				})
				require.ErrorIs(t, err, shared.ErrChanged)
				x, version, err := v.Get(t.Context())
				require.NoError(t, err)
				require.Equal(t, c.now, x)
				require.Equal(t, c.exists, version.Exists())
			})
		})
	}
}
