package framework_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGuaranteedDeleteWithAnyTwoFaults has the first and the second try fail, in every way.
func TestGuaranteedDeleteWithAnyTwoFaults(t *testing.T) { // CURATOR-202, -486
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t, framework.WithRetryPolicy(retry.Never()))
		for _, first := range testbed.Faults {
			for _, second := range testbed.Faults {
				_, err := client.Create(testbed.Context(t), "/n", nil)
				require.NoError(t, err)
				server.Inject(first, 0, zktest.OnOp(zktest.OpDelete))
				injected := server.Inject(second, 0, zktest.OnOp(zktest.OpDelete))
				found, err := client.DeleteGuaranteed(testbed.Context(t), "/n")
				require.NoError(t, err, "whatever the retry policy says")
				require.True(t, found)
				require.True(t, injected.Met())
				require.Empty(t, server.Tree())
				require.NoError(t, client.WaitConnected(testbed.Context(t)))
			}
		}
	})
}

// TestGuaranteedDeleteOutlastsAnOutage has the outage last longer than session and retries.
func TestGuaranteedDeleteOutlastsAnOutage(t *testing.T) { // CUR-CLI-28, CURATOR-106
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t, framework.WithRetryPolicy(retry.Never()))
		_, err := client.Create(t.Context(), "/n", nil)
		require.NoError(t, err)
		server.Stop()
		deleted := make(chan error, 1)
		go func() {
			_, err := client.DeleteGuaranteed(t.Context(), "/n")
			deleted <- err
		}()
		time.Sleep(time.Hour) // virtual time: the outage, in which nothing may happen
		require.Empty(t, deleted, "it goes on trying")
		require.NoError(t, server.Restart())
		require.NoError(t, <-deleted)
		require.Empty(t, server.Tree())
	})
}

func TestPlainDeleteThatFailedIsNotCarriedOutLater(t *testing.T) { // CUR-CLI-29
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t, framework.WithRetryPolicy(retry.Never()), framework.WithConnectionTimeout(time.Second))
		_, err := client.Create(t.Context(), "/n", nil)
		require.NoError(t, err)
		server.Stop()
		synctest.Wait()
		require.ErrorIs(t, client.Delete(t.Context(), "/n", -1), zk.ErrNoServer)
		require.NoError(t, server.Restart())
		time.Sleep(time.Minute) // virtual time, in which nothing may happen
		_, err = server.Get("/n")
		require.NoError(t, err)
	})
}

// TestTwoDeletesOfOneNodeDoNotBothSucceed has a delete's reply be lost, and another client delete the node that was
// made again: whether ours did it is not known, and must not be claimed.
func TestTwoDeletesOfOneNodeDoNotBothSucceed(t *testing.T) { // issue 10, B5
	server := zktest.NewServer(t)
	client, other := newClient(t, server), newClient(t, server)
	_, err := client.Create(t.Context(), "/n", nil)
	require.NoError(t, err)
	server.Inject(zktest.FailBefore, 0, zktest.OnOp(zktest.OpDelete))
	gate := server.Block(zktest.OnOp(zktest.OpDelete), func(zktest.Request) bool { return len(server.Sessions()) == 2 })
	defer gate.Open()
	result := make(chan error, 1)
	go func() { result <- client.Delete(testbed.Context(t), "/n", -1) }()
	testbed.Receive(t, gate.Arrived(), "a delete")
	gate.Open()
	ours, theirs := testbed.Receive(t, result, "our delete"), other.Delete(testbed.Context(t), "/n", -1)
	require.NoError(t, ours, "nobody else was there")
	require.ErrorIs(t, theirs, zk.ErrNoNode)
	require.False(t, retry.Unknown(theirs))

	_, err = client.Create(t.Context(), "/n", nil)
	require.NoError(t, err)
	server.Inject(zktest.LoseReply, 0, zktest.OnOp(zktest.OpDelete))
	err = client.Delete(testbed.Context(t), "/n", -1)
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.True(t, retry.Unknown(err), "it may have been us")
	require.EqualError(t, err, "delete /n: zk: node does not exist (the answer to an earlier attempt was lost)")
}

func TestDeleteThatLosesItsReplyHasDeleted(t *testing.T) { // CUR-CLI-38
	server := zktest.NewServer(t)
	client := newClient(t, server)
	for _, fault := range testbed.Faults {
		_, err := client.Create(testbed.Context(t), "/n", nil)
		require.NoError(t, err)
		injected := server.Inject(fault, 0, zktest.OnOp(zktest.OpDelete))
		found, err := client.DeleteIfExists(testbed.Context(t), "/n", 0)
		require.NoError(t, err, fault)
		require.True(t, found, "or it may have been")
		require.True(t, injected.Met())
	}
	server.Inject(zktest.LoseReply, 0, zktest.OnOp(zktest.OpDelete))
	_, err := client.Create(testbed.Context(t), "/n", nil)
	require.NoError(t, err)
	require.ErrorIs(t, client.Delete(testbed.Context(t), "/n", 7), zk.ErrBadVersion, "a wrong version stays wrong")
}

// TestGuaranteedDeleteOfACallerWhoGoesAway cancels while the server is busy with the delete.
func TestGuaranteedDeleteOfACallerWhoGoesAway(t *testing.T) { // CURATOR-205
	for name, fault := range map[string]func(server *zktest.Server) error{
		"and nothing else happens":          func(*zktest.Server) error { return nil },
		"and the connection is lost":        func(s *zktest.Server) error { s.CutConnections(); return nil },
		"and the server bounces":            func(s *zktest.Server) error { return s.Restart() },
		"and the request's session is over": func(s *zktest.Server) error { return s.ExpireSession(s.Sessions()[0].ID) },
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := newClient(t, server)
			_, err := client.Create(t.Context(), "/n", nil)
			require.NoError(t, err)
			gate := server.Block(zktest.OnOp(zktest.OpDelete))
			defer gate.Open()
			ctx, cancel := context.WithCancel(testbed.Context(t))
			result := make(chan error, 1)
			go func() {
				_, err := client.DeleteGuaranteed(ctx, "/n")
				result <- err
			}()
			testbed.Receive(t, gate.Arrived(), "the delete")
			cancel()
			require.ErrorIs(t, testbed.Receive(t, result, "the cancelled call"), context.Canceled)
			require.NoError(t, fault(server))
			gate.Open()
			testbed.Eventually(t, func() bool { return server.Tree() == "" }, "the node goes")
		})
	}
}

func TestGuaranteedDeleteOfACallerWhoWasGoneBefore(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	_, err := client.Create(t.Context(), "/n", nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = client.DeleteGuaranteed(ctx, "/n")
	require.ErrorIs(t, err, context.Canceled)
	testbed.Eventually(t, func() bool { return server.Tree() == "" }, "the node goes")
}

// TestGuaranteedDeleteOutlastsAServerThatRefusesCredentials: another server, or the same later, takes them, in the same session.
func TestGuaranteedDeleteOutlastsAServerThatRefusesCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		refuses := testbed.RefuseCredentials(server)
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext), framework.WithAuth("digest", []byte("user:password")))
		for _, path := range []string{"/waits", "/gives-up"} {
			_, err := client.Create(t.Context(), path, nil, framework.As(framework.Ephemeral))
			require.NoError(t, err)
		}
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		refuses.Store(true)
		server.CutConnections()
		require.Eventually(t, func() bool { return errors.Is(client.WaitConnected(t.Context()), zk.ErrAuthFailed) }, time.Second, time.Millisecond)
		result := make(chan error, 1)
		go func() {
			_, err := client.DeleteGuaranteed(t.Context(), "/waits")
			result <- err
		}()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = client.DeleteGuaranteed(gone, "/gives-up")
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(time.Second) // virtual time, in which both must not give up
		refuses.Store(false)
		require.NoError(t, <-result)
		synctest.Wait()
		require.Empty(t, server.Tree())
		require.NoError(t, session.Err())
	})
}

func TestGuaranteedDeleteEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t)
		gate := server.Block(zktest.OnOp(zktest.OpDelete))
		defer gate.Open()
		result := make(chan error, 1)
		go func() {
			_, err := client.DeleteGuaranteed(context.Background(), "/n")
			result <- err
		}()
		testbed.Receive(t, gate.Arrived(), "the delete")
		require.NoError(t, client.Close())
		err := testbed.Receive(t, result, "the delete")
		require.ErrorIs(t, err, framework.ErrClosed)
		require.True(t, retry.Unknown(err), "it was sent")
		_, err = client.DeleteGuaranteed(t.Context(), "/n")
		require.ErrorIs(t, err, framework.ErrClosed)
		require.False(t, retry.Unknown(err), "it was not")
	})
}

// TestGuaranteedDeleteThatWasSentMayHaveDeletedInASessionThatIsLost: the loss is not what became of the request.
func TestGuaranteedDeleteThatWasSentMayHaveDeletedInASessionThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t)
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		_, err = client.Create(t.Context(), "/n", nil)
		require.NoError(t, err)
		server.Inject(zktest.ExpireAfter, 0, zktest.OnOp(zktest.OpDelete))
		_, err = client.DeleteGuaranteed(framework.InSession(t.Context(), session), "/n")
		require.ErrorIs(t, err, framework.ErrSessionLost)
		require.False(t, server.Exists("/n"))
		require.True(t, retry.Unknown(err))
	})
}

func TestGuaranteedDeleteGivesUpWhatTheServerRefuses(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	_, err := client.Create(t.Context(), "/dir", nil, framework.ACL(zk.WorldACL(zk.PermAll&^zk.PermDelete)))
	require.NoError(t, err)
	_, err = client.Create(t.Context(), "/dir/n", nil)
	require.NoError(t, err)
	_, err = client.DeleteGuaranteed(t.Context(), "/dir/n")
	assert.ErrorIs(t, err, zk.ErrNoAuth)
	assert.EqualError(t, err, "delete /dir/n: zk: not authenticated")
	_, err = client.DeleteGuaranteed(t.Context(), "/dir")
	assert.ErrorIs(t, err, zk.ErrNotEmpty)
}

// removal is the result of a delete that no goroutine waits for.
type removal struct {
	found bool
	err   error
}

// beginDelete has the result go to a channel with room for a second one, which must not come.
func beginDelete(t *testing.T, client *framework.Client, path string) <-chan removal {
	session, err := client.Session(testbed.Context(t))
	require.NoError(t, err)
	removals := make(chan removal, 2)
	ctx := framework.InSession(session.Context(), session)
	engine.Of(client).DeleteSoon(ctx, path, func(found bool, err error) { removals <- removal{found, err} })
	return removals
}

// TestDeleteSoonHasItsPlaceAtOnce: what is sent after it finds the node deleted, also if somebody observes.
func TestDeleteSoonHasItsPlaceAtOnce(t *testing.T) {
	seen := &record{}
	for name, opts := range map[string][]framework.Option{"plain": nil, "observed": {framework.WithObserver(seen.observer())}} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client, ctx := newClient(t, server, opts...), testbed.Context(t)
			for range 100 {
				path, err := client.Create(ctx, "/a", nil, framework.As(framework.Ephemeral))
				require.NoError(t, err)
				removals := beginDelete(t, client, path)
				_, err = client.Create(ctx, "/a", nil, framework.As(framework.Ephemeral))
				require.NoError(t, err)
				require.Equal(t, removal{true, nil}, testbed.Receive(t, removals, "the answer"))
				require.NoError(t, client.Delete(ctx, path, -1))
				require.Equal(t, removal{false, nil}, testbed.Receive(t, beginDelete(t, client, path), "the answer that there is none"))
			}
		})
	}
}

// TestDeleteSoonIsReportedOnce, with what DeleteGuaranteed would have returned.
func TestDeleteSoonIsReportedOnce(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Server){
		"sent":     func(*zktest.Server) {},
		"repeated": func(s *zktest.Server) { s.Inject(zktest.FailBefore, 0, zktest.OnOp(zktest.OpDelete)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := &record{}
				server, client := virtual(t, framework.WithObserver(seen.observer()))
				require.NoError(t, client.WaitConnected(t.Context()))
				for _, want := range []error{nil, zk.ErrNotEmpty} {
					before := seen.count()
					fault(server)
					if want != nil {
						require.NoError(t, server.Create("/a", nil))
						require.NoError(t, server.Create("/a/b", nil))
					}
					removals := beginDelete(t, client, "/a")
					require.ErrorIs(t, testbed.Receive(t, removals, "the answer").err, want)
					synctest.Wait()
					require.Equal(t, before+2, seen.count(), "and that of the session")
					e := seen.last()
					require.Equal(t, []any{"delete", "/a", want}, []any{e.Op, e.Path, e.Err})
					require.False(t, e.Began.IsZero())
				}
			})
		})
	}
}

// TestDeleteSoonDoesNotGiveUp: a delete that is not carried out, or not answered, is repeated.
func TestDeleteSoonDoesNotGiveUp(t *testing.T) {
	seen := &record{}
	for name, opts := range map[string][]framework.Option{"": nil, "observed": {framework.WithObserver(seen.observer())}} {
		for _, fault := range []zktest.Fault{zktest.FailBefore, zktest.LoseReply} {
			t.Run(name+" "+fault.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server, client := virtual(t, opts...)
					path, err := client.Create(t.Context(), "/a", nil, framework.As(framework.Ephemeral))
					require.NoError(t, err)
					server.Inject(fault, 0, zktest.OnOp(zktest.OpDelete))
					removals := beginDelete(t, client, path)
					require.Equal(t, removal{true, nil}, testbed.Receive(t, removals, "the answer"))
					require.NotContains(t, server.Tree(), "/a")
					time.Sleep(time.Second) // virtual time, in which no second answer may come
					require.Empty(t, removals)
				})
			})
		}
	}
	require.Equal(t, "delete", seen.last().Op)
}

// TestDeleteSoonEndsWithTheSession, and with the client.
func TestDeleteSoonEndsWithTheSession(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *zktest.Server, *framework.Client, int64){
		"session": func(t *testing.T, server *zktest.Server, _ *framework.Client, id int64) {
			require.NoError(t, server.ExpireSession(id))
		},
		"client": func(_ *testing.T, _ *zktest.Server, client *framework.Client, _ int64) { client.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := virtual(t)
				path, err := client.Create(t.Context(), "/a", nil, framework.As(framework.Ephemeral))
				require.NoError(t, err)
				session, err := client.Session(t.Context())
				require.NoError(t, err)
				gate := server.Block(zktest.OnOp(zktest.OpDelete))
				removals := beginDelete(t, client, path)
				testbed.Receive(t, gate.Arrived(), "the request")
				end(t, server, client, session.ID())
				gate.Open()
				require.ErrorIs(t, testbed.Receive(t, removals, "the end").err, session.Err())
				time.Sleep(session.Timeout()) // virtual time: the server may not have been notified, and ends the session then
				require.NotContains(t, server.Tree(), "/a")
			})
		})
	}
}

// TestDeleteSoonSaysWhichNodeStays when the server refuses, on the connection and in the background.
func TestDeleteSoonSaysWhichNodeStays(t *testing.T) {
	for name, faults := range map[string]int{"sent": 0, "background": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := virtual(t)
				require.NoError(t, server.Create("/a", nil))
				require.NoError(t, server.Create("/a/b", nil))
				for range faults {
					server.Inject(zktest.FailBefore, 0, zktest.OnOp(zktest.OpDelete))
				}
				refused := testbed.Receive(t, beginDelete(t, client, "/a"), "the refusal")
				require.False(t, refused.found)
				require.ErrorIs(t, refused.err, zk.ErrNotEmpty)
				require.EqualError(t, refused.err, "delete /a: "+zk.ErrNotEmpty.Error())
			})
		})
	}
}
