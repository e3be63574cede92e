package once_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/once"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestAnyRequestOfAWaiterFailing has each request of a call fail that waits at some place behind a
// runner. No call is left waiting, and the key runs as often as it must.
func TestAnyRequestOfAWaiterFailing(t *testing.T) {
	for _, runner := range []string{"succeeds", "fails", "dies", "runs another key"} {
		for place := range testlevel.Pick(2, 2, 3) {
			for _, fault := range append(testbed.Faults, zktest.LoseWakeup) {
				t.Run(fmt.Sprintf("the runner %s, %d ahead, %v", runner, place+1, fault), func(t *testing.T) {
					met := true
					for n := 0; met; n++ {
						require.Less(t, n, 20)
						testbed.Virtual(t, func(t *testing.T, w *testbed.World) { met = waiterWorld(t, w, runner, place, fault, n) })
					}
				})
			}
		}
	}
}

func waiterWorld(t *testing.T, w *testbed.World, runner string, others int, fault zktest.Fault, n int) (met bool) {
	client := w.Client()
	first := newOnce(client, faultPath)
	ran(t, first, "before")
	session := testbed.Session(t, client)
	key := "key"
	if runner == "runs another key" {
		key = "another"
	}
	begun, finish := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_, _ = first.Do(context.Background(), key, func(ctx context.Context) error {
			close(begun)
			select {
			case <-finish:
			case <-ctx.Done():
			}
			if runner == "fails" {
				return errors.New("failed")
			}
			return nil
		})
	})
	<-begun
	var count counter
	wait := func(client *framework.Client) {
		o := newOnce(client, faultPath)
		all.Go(func() {
			_, err := o.Do(context.Background(), "key", func(context.Context) error {
				count.calls.Add(1)
				assert.EqualValues(t, 1, count.live.Add(1), "two live functions")
				time.Sleep(time.Second) // virtual time: how long the function runs
				count.live.Add(-1)
				return nil
			})
			assert.True(t, err == nil || runner != "succeeds" && errors.Is(err, framework.ErrLost), "%v", err)
		})
		time.Sleep(time.Second) // virtual time, until it is in the queue
	}
	for range others {
		wait(w.Client())
	}
	subject := w.Client(framework.WithErrorPolicy(connstate.LostEndsHold))
	spared := make(map[int64]bool)
	for _, s := range w.Server.Sessions() {
		spared[s.ID] = true
	}
	delete(spared, testbed.Session(t, subject).ID())
	injected := w.Server.Inject(fault, n, zktest.On(func(r zktest.Request) bool { return !spared[r.Session] }))
	wait(subject)
	if runner == "dies" {
		require.NoError(t, w.Server.ExpireSession(session.ID()))
	}
	close(finish)
	time.Sleep(30 * time.Second) // virtual time: another contender's requests release what LoseWakeup withholds
	met = injected.Met()
	w.Server.ClearFaults()
	all.Wait()
	require.NoError(t, testbed.Err(first.Do(testbed.Context(t), "key", succeed)))
	require.Equal(t, 1, recorded(w.Server, "key"))
	if runner == "succeeds" {
		require.Zero(t, count.calls.Load())
	} else {
		require.Less(t, count.calls.Load(), int32(3))
	}
	require.Equal(t, []string{"once"}, testbed.ServerChildren(t, w.Server, faultPath))
	return met
}

// TestCancelingAtAnyRequest cancels a call while one of its requests, or the reply, is held.
func TestCancelingAtAnyRequest(t *testing.T) {
	for name, do := range map[string]method{"Do": (*once.Once).Do, "TryDo": (*once.Once).TryDo} {
		for _, replies := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, replies %v", name, replies), func(t *testing.T) {
				met := true
				for n := 0; met; n++ {
					require.Less(t, n, 20)
					testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
						require.NoError(t, w.Server.Create(counterPath, nil))
						client := w.Client()
						o, other := newOnce(client, faultPath), newOnce(w.Client(), faultPath)
						seen := 0
						nth := zktest.On(func(zktest.Request) bool { seen++; return seen == n+1 })
						hold := w.Server.Block
						if replies {
							hold = w.Server.BlockReplies
						}
						gate := hold(zktest.OnSession(testbed.Session(t, client).ID()), nth)
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						var count counter
						result := testbed.Go(func() error {
							_, err := do(o, ctx, "key", count.increment(t, client))
							return err
						})
						synctest.Wait()
						select {
						case <-gate.Arrived():
							cancel()
							synctest.Wait()
						default:
							met = false
						}
						gate.Open()
						switch err := testbed.Receive(t, result, "the result"); {
						case err == nil:
							require.Equal(t, 1, recorded(w.Server, "key"))
						case !retry.Unknown(err):
							require.ErrorIs(t, err, context.Canceled)
							require.Zero(t, recorded(w.Server, "key"))
						}
						_, err := other.Do(testbed.Context(t), "key", count.increment(t, client))
						require.NoError(t, err)
						committedOnce(t, w.Server)
						noLock(t, client, faultPath)
					})
				}
			})
		}
	}
}
