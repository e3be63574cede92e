// Package pictures makes the pictures of the documents from runs in virtual time, and tests that
// each run shows what the text beside its picture says.
//
//	make pictures
package pictures

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
	"github.com/gocurator/curator/zktest/timeline"
)

var (
	dir    = flag.String("pictures", "", "write the pictures to this directory")
	suffix = flag.String("pictures.suffix", "", "part of the file names, for a run of a broken library")
)

// stage is a run with its cluster, in virtual time.
type stage struct {
	*testing.T
	*zktest.Cluster
}

// play runs a scene in a bubble, and writes its picture.
func play(t *testing.T, file, title string, scene func(s *stage), opts ...zktest.Option) {
	testbed.Bubble(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, slices.Concat([]zktest.Option{
			zktest.WithInMemory(), zktest.WithTimeline(), zktest.WithProperties(map[string]string{"tickTime": "500"}),
		}, opts)...)
		require.NoError(t, testbed.Err(cluster.WaitLeader(t.Context())))
		s := &stage{t, cluster}
		if *dir != "" { // deferred: a broken library fails the scene, and its picture is wanted
			defer func() {
				f := testbed.Must(os.Create(filepath.Join(*dir, file+*suffix+".svg")))
				require.NoError(t, s.Timeline().WriteSVG(f, title))
				require.NoError(t, f.Close())
			}()
		}
		scene(s)
	})
}

// client returns a client of one server, with a lane of this name.
func (s *stage) client(name string, server *zktest.Server, opts ...framework.Option) *framework.Client {
	s.Helper()
	client, err := framework.New(server.Servers(), append([]framework.Option{
		framework.WithDialer(s.DialContext), framework.WithSessionTimeout(4 * time.Second), timeline.Client(s.Timeline(), name),
	}, opts...)...)
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	require.NoError(s, client.WaitConnected(s.Context()))
	return client
}

func (s *stage) mutex(client *framework.Client, path string) *mutex.Mutex {
	s.Helper()
	m, err := mutex.New(client, path)
	require.NoError(s, err)
	return m
}

// held is a hold with the times of its context.
type held struct{ from, to time.Time }

// hold acquires, works until work returns, and tells when.
func (s *stage) hold(m *mutex.Mutex, work func(ctx context.Context)) (<-chan held, *lock.Hold) {
	s.Helper()
	hold, err := m.Acquire(s.Context())
	require.NoError(s, err)
	from, done := time.Now(), make(chan held, 1)
	go func() {
		_ = hold.Do(context.Background(), func(ctx context.Context) error {
			work(ctx)
			done <- held{from, time.Now()}
			return nil
		})
	}()
	return done, hold
}

// pause works for d.
func pause(d time.Duration) func(ctx context.Context) {
	return func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
}

// TestLoss is the promise of README.md: the server of a holder is cut off from the ensemble. The
// context of the hold is cancelled before the session expires, and the next client holds
// afterwards.
func TestLoss(t *testing.T) {
	play(t, "loss", "The holder's server is cut off from the ensemble", func(s *stage) {
		servers := s.Members()
		a, b := s.client("holder", servers[0], framework.WithErrorPolicy(connstate.LostEndsHold)), s.client("waiter", servers[1])
		first, hold := s.hold(s.mutex(a, "/nightly"), func(ctx context.Context) {
			for ctx.Err() == nil {
				_, _ = a.Create(ctx, "/progress", nil, framework.OrSet()) // fails once the server is cut off
				pause(200 * time.Millisecond)(ctx)
			}
		})
		next := make(chan (<-chan held), 1)
		go func() {
			done, _ := s.hold(s.mutex(b, "/nightly"), pause(4*time.Second))
			next <- done
		}()
		time.Sleep(2500 * time.Millisecond) // virtual time: a healthy hold is part of the picture
		require.NoError(s, s.Partition(servers[0]))
		one := <-first
		two := <-(<-next)
		assert.Error(s, hold.Err())
		assert.NotErrorIs(s, hold.Err(), lock.ErrReleased)
		assert.True(s, one.to.Before(two.from), "the context ended %v after the next one held", one.to.Sub(two.from))
		time.Sleep(time.Second) // virtual time: what follows is part of the picture
	}, zktest.WithSeed(3))
}

// TestFaults is the table of docs/GUARANTEES.md in one run: what each fault does to holds.
func TestFaults(t *testing.T) {
	play(t, "faults", "One lock, three clients, and what faults do to their holds", func(s *stage) {
		servers := s.Members()
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		var running sync.WaitGroup
		holds := make(chan held, 100)
		for i, name := range []string{"a", "b", "c"} {
			client := s.client(name, servers[i])
			m := s.mutex(client, "/l")
			running.Go(func() {
				for ctx.Err() == nil {
					hold, err := m.Acquire(ctx)
					if err != nil {
						continue
					}
					from := time.Now()
					_ = hold.Do(ctx, func(ctx context.Context) error {
						pause(900 * time.Millisecond)(ctx)
						holds <- held{from, time.Now()}
						return nil
					})
				}
			})
		}
		for _, fault := range []func(){
			func() {
				servers[0].Inject(zktest.LoseReply, 0, zktest.OnOp("delete", "multi", "create", "create2", "createContainer"))
			},
			func() { servers[1].CutConnections() },
			func() { require.NoError(s, s.ExpireSession(servers[2].Sessions()[0].ID)) },
			func() {
				leader, err := s.StopLeader()
				require.NoError(s, err)
				time.AfterFunc(2*time.Second, func() { _ = leader.Restart() })
			},
		} {
			time.Sleep(3 * time.Second) // virtual time: healthy holds are between the faults
			fault()
		}
		time.Sleep(6 * time.Second) // virtual time: the holds after the last fault
		cancel()
		running.Wait()
		close(holds)
		var last held
		n := 0
		for h := range holds {
			assert.False(s, h.from.Before(last.to), "two holds overlap by %v", last.to.Sub(h.from))
			last = h
			n++
		}
		assert.Greater(s, n, 8)
	}, zktest.WithSeed(3))
}
