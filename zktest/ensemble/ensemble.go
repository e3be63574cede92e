package ensemble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

// T is the part of *testing.T that an ensemble needs.
type T interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Logf(format string, args ...any)
}

// ErrNoDocker is returned if no Docker engine is running.
var ErrNoDocker = errors.New("no Docker engine is running")

// ErrNoImage is returned if no ZooKeeper image is present and none can be pulled.
var ErrNoImage = errors.New("no ZooKeeper image")

// startTimeout ends a start that hangs. On a loaded machine three JVMs need minutes.
const startTimeout = 20 * time.Minute

// New starts an ensemble for a test and waits for a quorum. It closes the ensemble when the test
// completes or panics. Without a Docker engine or an image it skips the test, or fails it if
// CURATOR_TEST_DOCKER=1.
func New(t T, opts ...Option) *Ensemble {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	e, err := Start(ctx, opts...)
	if err != nil {
		missing := errors.Is(err, ErrNoDocker) || errors.Is(err, ErrNoImage)
		if missing && os.Getenv("CURATOR_TEST_DOCKER") != "1" {
			t.Skipf("LEFT OUT, needs Docker: %v", err)
		}
		t.Fatalf("ensemble: %v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Logf("ensemble: %v", err)
		}
	})
	return e
}

// Ensemble is a running ensemble, whose servers are numbered from 0. All methods are safe for
// concurrent use.
type Ensemble struct {
	docker  *docker.Client
	cfg     config
	name    string
	clients *docker.Network
	peers   *docker.Network
	servers []*server

	closing sync.Once
	closed  error
}

// server is one member.
type server struct {
	container string // id
	host      string // its name on the peers' network
	proxy     *proxy

	mu  sync.Mutex // guards what follows
	cut bool       // off the peers' network
}

// Start starts an ensemble and waits for a quorum. The caller must call [Ensemble.Close].
//
// Errors are
//   - [ErrNoDocker] if no Docker engine is running;
//   - [ErrNoImage] if no ZooKeeper image is present and none can be pulled;
//   - another error if an option is invalid, Docker fails, or ctx is done first.
func Start(ctx context.Context, opts ...Option) (*Ensemble, error) {
	cfg := defaults()
	for _, opt := range opts {
		if err := opt(&cfg); err != nil {
			return nil, err
		}
	}
	client, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	e := &Ensemble{docker: client, cfg: cfg, name: fmt.Sprintf("curator-%d-%d", os.Getpid(), time.Now().UnixNano())}
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// connect returns a client of a Docker engine that answers.
func connect(ctx context.Context) (*docker.Client, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDocker, err)
	}
	if err := pool.Client.PingWithContext(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDocker, err)
	}
	return pool.Client, nil
}

func (e *Ensemble) start(ctx context.Context) error {
	// Another process may remove the same containers. A lasting error shows below.
	_ = sweep(ctx, e.docker, abandoned)
	image, err := e.image(ctx)
	if err != nil {
		return err
	}
	if e.clients, err = e.network(ctx, e.name+"-clients"); err != nil {
		return err
	}
	if e.peers, err = e.network(ctx, e.name+"-peers"); err != nil {
		return err
	}
	for i := range e.cfg.servers {
		s := &server{host: fmt.Sprintf("%s-%d", e.name, i+1)}
		e.servers = append(e.servers, s)
		if err := e.create(ctx, image, s, i); err != nil {
			return fmt.Errorf("server %d: %w", i, err)
		}
	}
	for i := range e.servers {
		if err := e.StartServer(i); err != nil {
			return err
		}
	}
	return e.WaitForQuorum(ctx)
}

// Close removes all containers and networks. The only error is that Docker did not remove some of
// them. Later calls return the same error.
func (e *Ensemble) Close() error {
	e.closing.Do(func() {
		var errs []error
		for _, s := range e.servers {
			if s.proxy != nil {
				s.proxy.close()
			}
			if s.container != "" {
				errs = append(errs, e.docker.RemoveContainer(docker.RemoveContainerOptions{ID: s.container, Force: true, RemoveVolumes: true}))
			}
		}
		for _, n := range []*docker.Network{e.clients, e.peers} {
			if n != nil {
				errs = append(errs, e.docker.RemoveNetwork(n.ID))
			}
		}
		e.closed = errors.Join(errs...)
	})
	return e.closed
}

// Servers returns the client addresses of all servers, in their order.
func (e *Ensemble) Servers() []string {
	list := make([]string, len(e.servers))
	for i, s := range e.servers {
		list[i] = s.proxy.addr()
	}
	return list
}

// Size returns the number of servers, running or not.
func (e *Ensemble) Size() int { return len(e.servers) }

// WaitForQuorum waits until a majority and every running, reachable server serves, and one leads.
// It fails when ctx is done.
func (e *Ensemble) WaitForQuorum(ctx context.Context) error {
	return poll(ctx, "a quorum", func() error {
		serving, leaders := 0, 0
		for i, s := range e.servers {
			running, err := e.running(s)
			if err != nil {
				return err
			}
			if !running || !s.proxy.open() {
				continue
			}
			mode, err := e.Mode(ctx, i)
			if err != nil {
				return fmt.Errorf("server %d: %w", i, err)
			}
			serving++
			if mode == "leader" || mode == "standalone" {
				leaders++
			}
		}
		if leaders != 1 || 2*serving <= len(e.servers) {
			return fmt.Errorf("%d of %d servers serving, %d leaders", serving, len(e.servers), leaders)
		}
		return nil
	})
}

// Mode returns the mode of server i: leader, follower or standalone. It fails if the server has no
// quorum or does not run.
func (e *Ensemble) Mode(ctx context.Context, i int) (string, error) {
	text, err := e.word(ctx, i, "srvr")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if mode, found := strings.CutPrefix(line, "Mode: "); found {
			return strings.TrimSpace(mode), nil
		}
	}
	return "", fmt.Errorf("server is not serving: %s", strings.TrimSpace(text))
}

// Leader waits until a server leads, and returns its number. The only error is the error of ctx, if
// ctx is done first.
func (e *Ensemble) Leader(ctx context.Context) (int, error) {
	leader := -1
	err := poll(ctx, "a leader", func() error {
		for i := range e.servers {
			if mode, err := e.Mode(ctx, i); err == nil && (mode == "leader" || mode == "standalone") {
				leader = i
				return nil
			}
		}
		return errors.New("no server leads")
	})
	return leader, err
}

// pollEvery is how often something outside of this process is looked at.
const pollEvery = 50 * time.Millisecond

// poll repeats f until it succeeds. Another process sends no signal to wait for.
func poll(ctx context.Context, what string, f func() error) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w", what, context.Cause(ctx), err)
		}
	}
}
