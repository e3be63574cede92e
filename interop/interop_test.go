package interop

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zktest/ensemble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	each   = 200 // acquisitions of each contender
	others = 2   // of Java's or kazoo's, and as many of ours
)

// patience is for a whole test; a JVM alone takes seconds to start on a busy machine.
const patience = 4 * time.Minute

// stage is an ensemble and what is needed to play on it.
type stage struct {
	ensemble *ensemble.Ensemble
	pool     *dockertest.Pool
}

func TestWithOtherClients(t *testing.T) {
	e := ensemble.Start(t)
	pool, err := dockertest.NewPool("")
	require.NoError(t, err)
	s := stage{e, pool}
	for _, c := range []struct {
		name string
		test func(*testing.T, stage)
	}{
		{"java: a mutex", javaMutex},
		{"java: a read/write lock", javaReadWriteLock},
		{"java: a semaphore, with sessions that end", javaSemaphore},
		{"java: a semaphore whose maximum changes", javaSharedMaximum},
		{"java is revoked", javaIsRevoked},
		{"java revokes", javaRevokes},
		{"java: participants", javaParticipants},
		{"java: a session that ends passes the lock on", javaSessionEnds},
		{"java: leader latches take turns", javaLatches},
		{"java: leader selectors take turns", javaSelectors},
		{"java: participants of a latch", javaLatchList},
		{"java: participants of a selector", javaSelectorList},
		{"java: a leader whose session ends", javaLeaderCrashes},
		{"kazoo: a lock", kazooLock},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

// client is one of ours.
func (s stage) client(t *testing.T) *framework.Client {
	t.Helper()
	client, err := framework.New(s.ensemble.Servers(), framework.WithSessionTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func (s stage) context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// peer is a program in a container.
type peer struct {
	lines chan string // what it says; closed when it has ended
}

var (
	//go:embed peers/Peer.java
	javaSource string

	//go:embed peers/peer.py
	pythonSource string
)

// java passes the program as text: the engine need not see our files.
func (s stage) java(t *testing.T, args ...string) *peer {
	const run = `printf %s "$PEER" > /tmp/Peer.java &&
		exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -cp '/usr/share/java/*' /tmp/Peer.java "$@"`
	return s.start(t, []string{"PEER=" + javaSource}, append([]string{"sh", "-c", run, "java", s.ensemble.ConnectString()}, args...)...)
}

func (s stage) kazoo(t *testing.T, args ...string) *peer {
	return s.start(t, nil, append([]string{"python3", "-c", pythonSource, s.ensemble.ConnectString()}, args...)...)
}

// start runs a command in a container of the image that scripts/peer-image.sh makes. It ends with
// the test.
func (s stage) start(t *testing.T, env []string, cmd ...string) *peer {
	t.Helper()
	container, err := s.pool.RunWithOptions(&dockertest.RunOptions{
		Repository: "curator-peers", Tag: "debian",
		Cmd: cmd, Env: env,
		Labels: map[string]string{"io.gocurator.owner": fmt.Sprintf("%s:%d", hostname(), os.Getpid())}, // package ensemble sweeps what a killed test leaves
	}, func(host *docker.HostConfig) {
		host.NetworkMode = "host" // where the ensemble's servers are reached
	})
	require.NoError(t, err, "scripts/peer-image.sh makes the image")
	p := &peer{lines: make(chan string, 1000)}
	reader, writer := io.Pipe()
	logs, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { // ends with the container
		_ = writer.CloseWithError(s.pool.Client.Logs(docker.LogsOptions{
			Context: logs, Container: container.Container.ID, OutputStream: writer, ErrorStream: writer,
			Stdout: true, Stderr: true, Follow: true,
		}))
	})
	wg.Go(func() {
		defer close(p.lines)
		for text := bufio.NewScanner(reader); text.Scan(); {
			t.Logf("peer: %s", text.Text())
			select {
			case p.lines <- text.Text():
			case <-logs.Done(): // nobody listens any more
				return
			}
		}
	})
	t.Cleanup(func() {
		assert.NoError(t, s.pool.Purge(container))
		stop()
		_ = reader.Close()
		wg.Wait()
	})
	return p
}

func hostname() string {
	name, _ := os.Hostname() // empty is a name too
	return name
}

// hears waits for a line that begins so, and returns the rest of it. A violation fails the test.
func (p *peer) hears(t *testing.T, ctx context.Context, start string) string {
	t.Helper()
	for {
		select {
		case line, more := <-p.lines:
			require.True(t, more, "it ended without %q", start)
			require.NotContains(t, line, "violation")
			if rest, found := strings.CutPrefix(line, start); found {
				return strings.TrimSpace(rest)
			}
		case <-ctx.Done():
			require.FailNow(t, "waited in vain", "for %q", start)
		}
	}
}

// scene is what contenders of both sides share.
type scene struct {
	path, counter, marks string
	client               *framework.Client

	written, handovers *atomic.Int64 // what we wrote to the counter last, and how often others had been there since
}

// newScene makes a counter at zero, and a place for marks.
func (s stage) newScene(t *testing.T) scene {
	t.Helper()
	base := testbed.Path(t)
	c := scene{
		path: base + "-lock", counter: base + "-counter", marks: base + "-marks", client: s.client(t),
		written: new(atomic.Int64), handovers: new(atomic.Int64),
	}
	for _, path := range []string{c.counter, c.marks} {
		_, err := c.client.Create(s.context(t), path, []byte("0"), framework.PersistentParents())
		require.NoError(t, err)
	}
	return c
}

// increment is not atomic, on purpose.
func (c scene) increment(ctx context.Context, client *framework.Client) error {
	data, _, err := client.Get(ctx, c.counter)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(data))
	if err != nil {
		return err
	}
	if int64(n) != c.written.Load() {
		c.handovers.Add(1)
	}
	time.Sleep(rand.N(2 * time.Millisecond)) // the work
	_, err = client.Set(ctx, c.counter, []byte(strconv.Itoa(n+1)), -1)
	c.written.Store(int64(n + 1))
	return err
}

// check looks at the counter, and for nodes that were left behind.
func (c scene) check(t *testing.T, ctx context.Context, want int, dirs ...string) {
	t.Helper()
	testbed.CatchUp(t, c.client)
	data, _, err := c.client.Get(ctx, c.counter)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(want), string(data), "increments were lost: two were inside")
	testbed.Eventually(t, func() bool {
		for _, dir := range append(dirs, c.path) {
			children, _, err := c.client.Children(ctx, dir)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return false
			}
			for _, child := range children {
				if strings.HasPrefix(child, "_c_") || strings.Contains(child, "__lock__") {
					return false
				}
			}
		}
		return true
	}, "no node is left")
	if want > 0 {
		require.Positive(t, c.handovers.Load(), "they were never in each other's way")
	}
	t.Logf("counter %s, %d hand-overs from the others to us, no node left", data, c.handovers.Load())
}

// contend runs our side of it: several clients, each with many turns.
func (s stage) contend(t *testing.T, turn func(client *framework.Client) (func(ctx context.Context, n int) error, error)) *sync.WaitGroup {
	t.Helper()
	ctx := s.context(t)
	var wg sync.WaitGroup
	for range others {
		client := s.client(t)
		once, err := turn(client)
		require.NoError(t, err)
		wg.Go(func() {
			for n := range each {
				if err := once(ctx, n); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	return &wg
}

func javaMutex(t *testing.T, s stage) {
	c := s.newScene(t)
	ctx := s.context(t)
	var peers []*peer
	for range others {
		peers = append(peers, s.java(t, "mutex", c.path, c.counter, fmt.Sprint(each)))
	}
	for _, p := range peers {
		p.hears(t, ctx, "session")
	}
	wg := s.contend(t, func(client *framework.Client) (func(context.Context, int) error, error) {
		m, err := mutex.New(client, c.path)
		return func(ctx context.Context, _ int) error {
			return m.Do(ctx, func(ctx context.Context) error { return c.increment(ctx, client) })
		}, err
	})
	for _, p := range peers {
		p.hears(t, ctx, "done")
	}
	wg.Wait()
	c.check(t, ctx, 2*others*each)
}

func javaReadWriteLock(t *testing.T, s stage) {
	c := s.newScene(t)
	ctx := s.context(t)
	var peers []*peer
	for range others {
		peers = append(peers, s.java(t, "rwlock", c.path, c.counter, fmt.Sprint(each)))
	}
	for _, p := range peers {
		p.hears(t, ctx, "session")
	}
	wg := s.contend(t, func(client *framework.Client) (func(context.Context, int) error, error) {
		l, err := rwlock.New(client, c.path)
		return func(ctx context.Context, n int) error {
			if n%3 == 0 {
				return l.Write().Do(ctx, func(ctx context.Context) error { return c.increment(ctx, client) })
			}
			return l.Read().Do(ctx, func(ctx context.Context) error { return c.unchanged(ctx, client) })
		}, err
	})
	for _, p := range peers {
		p.hears(t, ctx, "done")
	}
	wg.Wait()
	c.check(t, ctx, 2*others*((each+2)/3))
}

// unchanged looks twice at the counter.
func (c scene) unchanged(ctx context.Context, client *framework.Client) error {
	before, _, err := client.Get(ctx, c.counter)
	if err != nil {
		return err
	}
	time.Sleep(rand.N(2 * time.Millisecond)) // the work
	if err := client.Sync(ctx, c.counter); err != nil {
		return err
	}
	after, _, err := client.Get(ctx, c.counter)
	if err == nil && string(before) != string(after) {
		err = fmt.Errorf("a reader saw %s and then %s", before, after)
	}
	return err
}

// mark leaves a mark while it holds, and counts those of all.
func (c scene) mark(ctx context.Context, client *framework.Client, max int) error {
	node, err := client.Create(ctx, c.marks+"/mark-", nil, framework.As(framework.EphemeralSequential))
	if err != nil {
		return err
	}
	children, _, err := client.Children(ctx, c.marks)
	if err != nil {
		return err
	}
	if len(children) > max {
		return fmt.Errorf("%d hold, and %d may", len(children), max)
	}
	time.Sleep(rand.N(3 * time.Millisecond)) // the work
	_, err = client.DeleteGuaranteed(ctx, node)
	return err
}

func javaSemaphore(t *testing.T, s stage) {
	const max = 3
	c := s.newScene(t)
	ctx := s.context(t)
	var peers []*peer
	for range others {
		peers = append(peers, s.java(t, "semaphore", c.path, c.marks, fmt.Sprint(each), fmt.Sprint(max)))
	}
	for _, p := range peers {
		p.hears(t, ctx, "session")
	}
	// Sessions of ours end now and then: their leases and marks go with them.
	victim := s.client(t)
	over := make(chan struct{})
	var killing sync.WaitGroup
	killing.Go(func() {
		pool, err := semaphore.New(victim, c.path, max)
		if !assert.NoError(t, err) {
			return
		}
		for n := 0; ; n++ {
			select {
			case <-over:
				assert.Positive(t, n, "no session ended")
				t.Logf("%d sessions ended while they held", n)
				return
			default:
			}
			hold, err := pool.Acquire(ctx)
			if !assert.NoError(t, err) {
				return
			}
			_, err = victim.Create(framework.InSession(ctx, hold.Session()), c.marks+"/mark-", nil, framework.As(framework.EphemeralSequential))
			assert.NoError(t, err)
			assert.NoError(t, s.ensemble.KillSession(ctx, hold.Session().ID()))
			<-hold.Done()
			_ = hold.Release() // it says that the session was lost
		}
	})
	wg := s.contend(t, func(client *framework.Client) (func(context.Context, int) error, error) {
		pool, err := semaphore.New(client, c.path, max)
		return func(ctx context.Context, _ int) error {
			return pool.Do(ctx, func(ctx context.Context) error { return c.mark(ctx, client, max) })
		}, err
	})
	for _, p := range peers {
		p.hears(t, ctx, "done")
	}
	wg.Wait()
	close(over)
	killing.Wait()
	c.check(t, ctx, 0, c.path+"/leases", c.path+"/locks")
}

func javaSharedMaximum(t *testing.T, s stage) {
	const most = 4
	c := s.newScene(t)
	ctx := s.context(t)
	count, err := semaphore.NewCount(c.client, c.path+"-max", 1)
	require.NoError(t, err)
	require.NoError(t, count.Set(ctx, 1))
	var peers []*peer
	for range others {
		peers = append(peers, s.java(t, "shared", c.path, c.marks, fmt.Sprint(each), fmt.Sprint(most), count.Path()))
	}
	for _, p := range peers {
		p.hears(t, ctx, "session")
	}
	over := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for n := 1; ; n = n%most + 1 {
			assert.NoError(t, count.Set(ctx, n))
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	wg := s.contend(t, func(client *framework.Client) (func(context.Context, int) error, error) {
		shared, err := semaphore.NewCount(client, count.Path(), 1)
		if err != nil {
			return nil, err
		}
		pool, err := semaphore.NewShared(client, c.path, shared)
		return func(ctx context.Context, _ int) error {
			return pool.Do(ctx, func(ctx context.Context) error { return c.mark(ctx, client, most) })
		}, err
	})
	for _, p := range peers {
		p.hears(t, ctx, "done")
	}
	wg.Wait()
	close(over)
	changing.Wait()
	c.check(t, ctx, 0, c.path+"/leases", c.path+"/locks")
}

func javaIsRevoked(t *testing.T, s stage) {
	c := s.newScene(t)
	ctx := s.context(t)
	p := s.java(t, "hold", c.path)
	p.hears(t, ctx, "held")
	m, err := mutex.New(c.client, c.path)
	require.NoError(t, err)
	testbed.CatchUp(t, c.client)
	n, err := revocable.RevokeHolders(ctx, c.client, m)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	p.hears(t, ctx, "revoked")
	hold, err := m.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, hold.Release())
	p.hears(t, ctx, "done")
	c.check(t, ctx, 0)
}

func javaRevokes(t *testing.T, s stage) {
	c := s.newScene(t)
	ctx := s.context(t)
	m, err := mutex.New(c.client, c.path)
	require.NoError(t, err)
	l, err := revocable.New(m)
	require.NoError(t, err)
	hold, err := l.Acquire(ctx)
	require.NoError(t, err)
	p := s.java(t, "revoke", hold.Path())
	p.hears(t, ctx, "done")
	testbed.Receive(t, hold.Revoked(), "word from Java")
	require.NoError(t, hold.Err(), "to be asked takes nothing away")
	require.NoError(t, hold.Release())
	c.check(t, ctx, 0)
}

func javaParticipants(t *testing.T, s stage) {
	c := s.newScene(t)
	ctx := s.context(t)
	m, err := mutex.New(c.client, c.path)
	require.NoError(t, err)
	hold, err := m.Acquire(ctx)
	require.NoError(t, err)
	waiter := s.java(t, "hold", c.path)
	waiter.hears(t, ctx, "session")
	var ps []lock.Participant
	testbed.Eventually(t, func() bool {
		ps, err = m.Participants(ctx)
		return err == nil && len(ps) == 2
	}, "Java waits")
	require.Equal(t, hold.Path(), ps[0].Path)
	require.True(t, ps[0].Holds)
	require.False(t, ps[1].Holds)
	lister := s.java(t, "participants", c.path)
	for _, p := range ps {
		require.Equal(t, p.Path, lister.hears(t, ctx, "participant"), "Java sees the same, in the same order")
	}
	lister.hears(t, ctx, "done")
	require.NoError(t, hold.Release())
	waiter.hears(t, ctx, "held")
	_, err = revocable.RevokeHolders(ctx, c.client, m)
	require.NoError(t, err)
	waiter.hears(t, ctx, "done")
	c.check(t, ctx, 0)
}

// javaSessionEnds does not wait for the Java client to come back: that takes it a minute.
func javaSessionEnds(t *testing.T, s stage) {
	c := s.newScene(t)
	ctx := s.context(t)
	p := s.java(t, "hold", c.path)
	session, err := strconv.ParseUint(p.hears(t, ctx, "session"), 16, 64)
	require.NoError(t, err)
	p.hears(t, ctx, "held")
	m, err := mutex.New(c.client, c.path)
	require.NoError(t, err)
	testbed.CatchUp(t, c.client)
	_, err = m.TryAcquire(ctx)
	require.ErrorIs(t, err, mutex.ErrNotAcquired)
	require.NoError(t, s.ensemble.KillSession(ctx, int64(session)))
	hold, err := m.Acquire(ctx)
	require.NoError(t, err)

	// And the other way round.
	next := s.java(t, "hold", c.path)
	next.hears(t, ctx, "session")
	require.NoError(t, s.ensemble.KillSession(ctx, hold.Session().ID()))
	next.hears(t, ctx, "held")
	testbed.Receive(t, hold.Done(), "word of the loss")
}

// kazooLock needs no driver of its own: kazoo orders by the digits after "__lock__", whatever is
// before that, and so do we.
func kazooLock(t *testing.T, s stage) {
	c := s.newScene(t)
	ctx := s.context(t)
	var peers []*peer
	for range others {
		peers = append(peers, s.kazoo(t, c.path, c.counter, fmt.Sprint(each)))
	}
	for _, p := range peers {
		p.hears(t, ctx, "session")
	}
	wg := s.contend(t, func(client *framework.Client) (func(context.Context, int) error, error) {
		q, err := lock.New(client, c.path, "__lock__", nil)
		return func(ctx context.Context, _ int) error {
			return q.Do(ctx, func(ctx context.Context) error { return c.increment(ctx, client) })
		}, err
	})
	for _, p := range peers {
		p.hears(t, ctx, "done")
	}
	wg.Wait()
	c.check(t, ctx, 2*others*each)
}
