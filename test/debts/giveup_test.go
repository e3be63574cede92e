package debts_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// calls are the calls that create a node or delete one, by name. Each is given up in the middle. If
// it succeeds, it releases what it has. Afterwards no node is left at /x or below it, but for its
// parents and data.
var calls = map[string]func(ctx context.Context, client *framework.Client) error{
	"create, ephemeral":  create(framework.Ephemeral),
	"create, persistent": create(framework.Persistent),
	"create, sequential": create(framework.PersistentSequential),
	"guaranteed delete": func(ctx context.Context, client *framework.Client) error {
		return client.Delete(ctx, "/x/old", framework.Guaranteed())
	},
	"keep":                       keep(),
	"keep, protected":            keep(node.WithProtection()),
	"keep, persistent":           keep(node.WithPersistence()),
	"keep, persistent protected": keep(node.WithPersistence(), node.WithProtection()),
	"keep, persistent numbered":  keep(node.WithPersistence(), node.WithProtection(), node.WithSequence()),
	"keep, replaces":             keep(node.WithPersistence(), node.WithIfTaken(node.Replace)),
	"join": func(ctx context.Context, client *framework.Client) error {
		m, err := node.Join(ctx, client, "/x", "m", nil)
		if err != nil {
			return err
		}
		return m.Close()
	},
	"mutex": func(ctx context.Context, client *framework.Client) error {
		return testbed.Must(mutex.New(client, "/x")).Do(ctx, nothing)
	},
	"read lock": func(ctx context.Context, client *framework.Client) error {
		return testbed.Must(rwlock.New(client, "/x")).Read().Do(ctx, nothing)
	},
	"semaphore": func(ctx context.Context, client *framework.Client) error {
		return testbed.Must(semaphore.New(client, "/x", 2)).Do(ctx, nothing)
	},
	"election": func(ctx context.Context, client *framework.Client) error {
		return testbed.Must(leader.New(client, "/x")).Lead(ctx, func(context.Context, *leader.Term) error { return nil })
	},
	"barrier": func(ctx context.Context, client *framework.Client) error {
		entry, err := testbed.Must(barrier.NewDouble(client, "/x/b", 1)).Enter(ctx)
		if err != nil {
			return err
		}
		return entry.Leave(ctx)
	},
	"shared value": func(ctx context.Context, client *framework.Client) error {
		_, err := testbed.Must(shared.Int64(client, "/x/value")).Update(ctx, func(n int64) (int64, error) { return n + 1, nil })
		return err
	},
}

func nothing(context.Context) error { return nil }

func create(mode framework.Mode) func(context.Context, *framework.Client) error {
	return func(ctx context.Context, client *framework.Client) error {
		return testbed.Err(client.Create(ctx, "/x/n", nil, framework.As(mode), framework.Protected()))
	}
}

// errStays wraps the error of a Node's Close after which its node stays: the client was closed
// before.
var errStays = errors.New("the node stays")

func keep(opts ...node.Option) func(context.Context, *framework.Client) error {
	return func(ctx context.Context, client *framework.Client) error {
		n, err := node.Keep(ctx, client, "/x/n", nil, opts...)
		if err != nil {
			return err
		}
		if err = n.Close(); errors.Is(err, framework.ErrClosed) {
			return fmt.Errorf("%w: %w", errStays, err)
		}
		return err
	}
}

// ends are ways in which the client ends after the call.
var ends = map[string]func(s *scene){
	"at once":     func(s *scene) { s.client.Close() },
	"a minute on": func(s *scene) { time.Sleep(time.Minute); s.client.Close() }, // virtual time
	"two at a time": func(s *scene) {
		var wg sync.WaitGroup
		wg.Go(func() { s.client.Close() })
		wg.Go(func() { s.client.Close() })
		wg.Wait()
	},
	"after the session has expired": func(s *scene) {
		_ = s.server.ExpireSession(s.session.ID()) // it may have expired
		s.client.Close()
	},
	"after the session was lost to the client": func(s *scene) {
		s.server.Freeze(s.session.ID())
		<-s.session.Done()
		s.server.Thaw(s.session.ID())
		s.client.Close()
	},
	"without a server": func(s *scene) {
		s.server.RefuseConnections(true)
		s.server.CutConnections()
		s.client.Close()
		s.server.RefuseConnections(false)
		s.unreachable = true
	},
}

// scene is one run.
type scene struct {
	server      *zktest.Server
	client      *framework.Client
	session     *framework.Session // the first one
	log         testbed.Output
	unreachable bool // during Close
}

// latency is how long a message takes.
const latency = time.Millisecond

// newScene makes a server with a node to delete, and a client that counts its session as lost after
// half of its timeout.
func newScene(t *testing.T) *scene {
	s := &scene{server: zktest.NewServer(t, zktest.WithInMemory(), zktest.WithLatency(latency))}
	require.NoError(t, s.server.Create("/x", nil))
	require.NoError(t, s.server.Create("/x/old", nil))
	s.client = testbed.ClientOf(t, s.server, framework.WithExpirationPercent(50), framework.WithSessionTimeout(10*time.Second),
		framework.WithLogger(slog.New(slog.NewTextHandler(&s.log, nil))))
	s.session = testbed.Session(t, s.client)
	return s
}

// TestGivingUpAtEachRequest has each request of each call be lost, before or after it was carried
// out, with or without the session, the caller give up at that moment, and the client be closed.
func TestGivingUpAtEachRequest(t *testing.T) {
	faults := []zktest.Fault{zktest.FailBefore, zktest.LoseReply, zktest.ExpireBefore, zktest.ExpireAfter}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for end, close := range ends {
				for _, fault := range faults {
					met := true
					for n := 0; met; n++ {
						require.Less(t, n, 50, "the call never ends")
						t.Run(fmt.Sprintf("%s/%v/request %d", end, fault, n), func(t *testing.T) {
							met = givingUp(t, name, call, close, fault, n)
						})
					}
				}
			}
		})
	}
}

// givingUp has the fault meet request n of the call, whose caller gives up then. It closes the
// client, and reports whether the call had so many requests.
func givingUp(t *testing.T, name string, call func(context.Context, *framework.Client) error, close func(*scene), fault zktest.Fault, n int) (met bool) {
	testbed.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		left := n
		injected := s.server.Inject(fault, 0, zktest.On(func(r zktest.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if r.Op == "ping" {
				return false
			}
			if left--; left == -1 {
				cancel()
				return true
			}
			return false
		}))
		err := call(ctx, s.client)
		met = injected.Met()
		close(s)
		s.check(t, name, err)
	})
	return met
}

// TestClose_DeletionAboutToBeSent: Close closes the session after the deletion of a node that it
// has just found. The order of goroutines decides whether it could be earlier.
func TestClose_DeletionAboutToBeSent(t *testing.T) {
	const name, end = "keep, persistent numbered", "after the session was lost to the client"
	for range 100 {
		givingUp(t, name, calls[name], ends[end], zktest.LoseReply, 1)
	}
}

// TestClosingAtEachRequest closes the client when a request of a call arrives at the server, and at
// the instant at which its reply arrives.
func TestClosingAtEachRequest(t *testing.T) {
	const tries = 5 // the order of goroutines differs
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for delay, when := range map[time.Duration]string{0: "request", latency: "reply"} {
				met := true
				for n := 0; met; n++ {
					met = false
					require.Less(t, n, 50, "the call never ends")
					t.Run(fmt.Sprintf("%s %d", when, n), func(t *testing.T) {
						for range tries {
							testbed.Bubble(t, func(t *testing.T) {
								s := newScene(t)
								left, closed := n, make(chan struct{})
								s.server.Inject(zktest.FailBefore, 0, zktest.On(func(r zktest.Request) bool {
									if left--; left == -1 {
										met = true
										time.AfterFunc(delay, func() {
											s.client.Close()
											close(closed)
										})
									}
									return false
								}))
								err := call(t.Context(), s.client)
								s.server.ClearFaults()
								if met {
									<-closed
								}
								s.client.Close()
								s.check(t, name, err)
								require.NotContains(t, s.log.String(), falseLine, "the server was reached")
							})
						}
					})
				}
			}
		})
	}
}

// falseLine is in the log if Close could not delete a node. It is false if the server was reached.
const falseLine = "might not have been deleted"

// held are calls after which the client has a node, or a waiter has one.
var held = map[string]func(ctx context.Context, client *framework.Client) error{
	"kept node": func(ctx context.Context, client *framework.Client) error {
		return testbed.Err(node.Keep(ctx, client, "/x/n", nil))
	},
	"member": func(ctx context.Context, client *framework.Client) error {
		return testbed.Err(node.Join(ctx, client, "/x", "m", nil))
	},
	"registration": func(ctx context.Context, client *framework.Client) error {
		_, err := testbed.Must(discovery.New[any](client, "/x")).Register(ctx, discovery.Instance[any]{Name: "s", Address: "h", Port: 1})
		return err
	},
	"hold and waiter": func(ctx context.Context, client *framework.Client) error {
		m := testbed.Must(mutex.New(client, "/x"))
		if _, err := m.Acquire(ctx); err != nil {
			return err
		}
		go func() { _, _ = m.Acquire(ctx) }() // ends with Close
		return nil
	},
	"lease": func(ctx context.Context, client *framework.Client) error {
		return testbed.Err(testbed.Must(semaphore.New(client, "/x", 2)).Acquire(ctx))
	},
	"term": func(ctx context.Context, client *framework.Client) error {
		return testbed.Err(testbed.Must(leader.New(client, "/x")).Campaign(ctx))
	},
	"entry": func(ctx context.Context, client *framework.Client) error {
		return testbed.Err(testbed.Must(barrier.NewDouble(client, "/x/b", 1)).Enter(ctx))
	},
	"waiting entry": func(ctx context.Context, client *framework.Client) error {
		d := testbed.Must(barrier.NewDouble(client, "/x/b", 2))
		go func() { _, _ = d.Enter(ctx) }() // ends with Close
		return nil
	},
}

// TestClosingWhileNodesAreHeld closes the client at different moments, while each owner gives its
// node up: no node stays, and no line of the log is false.
func TestClosingWhileNodesAreHeld(t *testing.T) {
	for name, hold := range held {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range 20 { // the order of goroutines differs, too
				testbed.Bubble(t, func(t *testing.T) {
					s := newScene(t)
					require.NoError(t, hold(t.Context(), s.client))
					time.Sleep(time.Duration(n) * latency / 4) // virtual time
					s.client.Close()
					s.check(t, name, nil)
					require.NotContains(t, s.log.String(), falseLine)
				})
			}
		})
	}
}

// check looks at what is left when each session has expired.
func (s *scene) check(t *testing.T, name string, err error) {
	time.Sleep(time.Minute) // virtual time
	for _, n := range s.server.Dump() {
		switch {
		case err == nil && strings.HasPrefix(name, "create"): // it is the caller's
		case errors.Is(err, errStays): // the caller knows
		case !strings.HasPrefix(n.Path, "/x/"), n.Path == "/x/value", n.Path == "/x/old" && !strings.HasPrefix(name, "guaranteed"):
		case n.Path == "/x/b", n.Path == "/x/b/ready":
			// of a barrier without members: the next Enter deletes it
		case strings.Contains(n.Path, "/locks"), strings.Contains(n.Path, "/leases"): // parents
			require.NotContains(t, n.Path, "_c_")
		default:
			if !s.unreachable || !strings.Contains(s.log.String(), falseLine) {
				require.Failf(t, "a node stays", "%s, after the error %v; the log says\n%s", n.Path, err, &s.log)
			}
		}
	}
}
