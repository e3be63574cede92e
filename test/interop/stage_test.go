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
	"os/exec"
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

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/jvm"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest/ensemble"
)

// testTimeout is for a whole test; a JVM alone takes seconds to start on a busy machine.
const testTimeout = 4 * time.Minute

// stage is an ensemble and what is needed to play on it.
type stage struct {
	ensemble *ensemble.Ensemble
	pool     *dockertest.Pool
	curator  map[string]jvm.Classes // programs of Java on this machine, by name; nil: in containers
}

func newStage(t *testing.T) stage {
	t.Helper()
	e := ensemble.New(t)
	return stage{ensemble: e, pool: testbed.Must(dockertest.NewPool(""))}
}

// withCurator returns the stage with peers of Curator 5.9.0 on the JVM of this machine.
func (s stage) withCurator(t *testing.T) stage {
	t.Helper()
	classes := jvm.Resolve(t, "curator", "peers/curator/pom.xml")
	s.curator = map[string]jvm.Classes{}
	for _, name := range []string{"Peer", "Discovery", "Modeled"} {
		s.curator[name] = classes.Compile(t, []string{"peers/" + name + ".java"})
	}
	return s
}

// client is one of ours.
func (s stage) client(t *testing.T) *framework.Client {
	t.Helper()
	return testbed.NewClient(t, s.ensemble.Servers(), framework.WithSessionTimeout(10*time.Second))
}

func (s stage) context(t *testing.T) context.Context { return testbed.Timeout(t, testTimeout) }

// peer is a program in a container.
type peer struct {
	lines chan string // what it says; closed when it has ended
	kill  func() error
	tree  string // that its cache showed last
}

var (
	//go:embed peers/Peer.java
	javaSource string

	//go:embed peers/Discovery.java
	discoverySource string

	//go:embed peers/peer.py
	pythonSource string
)

// jars are the class path. ZooKeeper's own come first, for the manifests of others name them
// elsewhere, and one of several logs.
const jars = "/usr/share/java/zookeeper-jute.jar:/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:/usr/share/java/*"

// peersTag is the tag of the image that scripts/peer-image.sh makes for the suite of Debian in
// ZOOKEEPER_SUITE.
func peersTag() string {
	if suite := os.Getenv("ZOOKEEPER_SUITE"); suite != "" && suite != "bookworm" {
		return suite
	}
	return "debian"
}

// java runs one of Curator's recipes.
func (s stage) java(t *testing.T, args ...string) *peer { return s.javaProgram(t, "Peer", args...) }

// Programs are passed as text, since the engine need not see our files: classes in $PEER, their
// first in $0.
const (
	compilePeer = `mkdir /tmp/peer && cat > "/tmp/$0.java" &&
	javac -d /tmp/peer -cp "$JARS" "/tmp/$0.java" && tar -C /tmp/peer -cz . | base64 -w 0`

	runPeer = `mkdir /tmp/peer && printf %s "$PEER" | base64 -d | tar -C /tmp/peer -xz && exec java \
	-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$JARS:/tmp/peer" "$0" "$@"`
)

// programs are compiled once: it costs five times the start of one.
var programs = map[string]func() (string, error){
	"Peer":      sync.OnceValues(func() (string, error) { return compiled("Peer", javaSource) }),
	"Discovery": sync.OnceValues(func() (string, error) { return compiled("Discovery", discoverySource) }),
}

// compiled returns the classes of a program as $PEER.
func compiled(name, source string) (string, error) {
	compile := exec.Command("docker", "run", "-i", "--rm", "--label", fmt.Sprintf("io.gocurator.owner=%s:%d", hostname(), os.Getpid()),
		"-e", "JARS="+jars, "-e", "LC_ALL=C.UTF-8", "curator-peers:"+peersTag(), "sh", "-c", compilePeer, name)
	compile.Stdin, compile.Stderr = strings.NewReader(source), os.Stderr
	classes, err := compile.Output()
	return string(classes), err
}

func (s stage) javaProgram(t *testing.T, name string, args ...string) *peer {
	t.Helper()
	if s.curator != nil {
		p := s.curator[name].Start(t, append([]string{"-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			name, strings.Join(s.ensemble.Servers(), ",")}, args...)...)
		return &peer{lines: p.Lines, kill: func() error { p.Kill(); return nil }}
	}
	classes := testbed.Must(programs[name]())
	return s.start(t, []string{"PEER=" + classes, "JARS=" + jars, "LC_ALL=C.UTF-8"},
		append([]string{"sh", "-c", runPeer, name, strings.Join(s.ensemble.Servers(), ",")}, args...)...)
}

func (s stage) kazoo(t *testing.T, args ...string) *peer {
	return s.start(t, nil, append([]string{"python3", "-c", pythonSource, strings.Join(s.ensemble.Servers(), ",")}, args...)...)
}

// start runs a command in a container of the image that scripts/peer-image.sh makes. It ends with
// the test.
func (s stage) start(t *testing.T, env []string, cmd ...string) *peer {
	t.Helper()
	container, err := s.pool.RunWithOptions(&dockertest.RunOptions{
		Repository: "curator-peers", Tag: peersTag(),
		Cmd: cmd, Env: env,
		// package ensemble sweeps what a killed test leaves
		Labels: map[string]string{"io.gocurator.owner": fmt.Sprintf("%s:%d", hostname(), os.Getpid())},
	}, func(host *docker.HostConfig) {
		host.NetworkMode = "host" // where the ensemble's servers are reached
	})
	require.NoError(t, err, "scripts/peer-image.sh makes the image")
	p := &peer{lines: make(chan string, 1000), kill: func() error {
		return s.pool.Client.KillContainer(docker.KillContainerOptions{ID: container.Container.ID, Signal: docker.SIGKILL})
	}}
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
			case <-logs.Done(): // the receiver has stopped
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

// hearsSession waits for the session of a peer.
func (p *peer) hearsSession(t *testing.T, ctx context.Context) int64 {
	t.Helper()
	return int64(testbed.Must(strconv.ParseUint(p.hears(t, ctx, "session"), 16, 64)))
}

// peers are several that run the same program.
type peers []*peer

// company starts as many peers as there are contenders of this library.
func company(start func() *peer) (all peers) {
	for range others {
		all = append(all, start())
	}
	return all
}

func (s stage) javas(t *testing.T, args ...string) peers {
	return company(func() *peer { return s.java(t, args...) })
}

// hear waits until each of them has printed such a line.
func (all peers) hear(t *testing.T, ctx context.Context, start string) {
	t.Helper()
	for _, p := range all {
		p.hears(t, ctx, start)
	}
}

// scene is what contenders of both sides share.
type scene struct {
	path, counter, marks string
	client               *framework.Client

	// what we wrote to the counter last, and how often others had been there since
	written, handovers *atomic.Int64
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
		testbed.Create(t, c.client, path, []byte("0"), framework.PersistentParents())
	}
	return c
}

// begin returns a new scene, and the context of the whole test.
func (s stage) begin(t *testing.T) (scene, context.Context) {
	t.Helper()
	return s.newScene(t), s.context(t)
}

// begun waits until one of the peers has counted: its first turn may take longer than all turns of
// this process, and both sides must contend.
func (c scene) begun(t *testing.T, ctx context.Context, peers peers) {
	t.Helper()
	peers.hear(t, ctx, "session")
	until(t, ctx, func() bool {
		data, _, err := c.client.Get(ctx, c.counter)
		return err == nil && string(data) != "0"
	}, "a turn of a peer")
}

// turn is one turn of a contender, the n-th.
type turn = func(ctx context.Context, n int) error

// count has peers and contenders of this library increment the counter, each inside of its lock, and
// requires that no increment is lost.
func (c scene) count(t *testing.T, s stage, peers peers, want int, take func(*framework.Client) (turn, error)) {
	t.Helper()
	ctx := s.context(t)
	c.begun(t, ctx, peers)
	s.contend(t, ctx, peers, take)
	c.check(t, ctx, want)
}

// increments returns the turn of a contender that increments inside of a lock.
func (c scene) increments(client *framework.Client, l interface {
	Do(context.Context, func(context.Context) error) error
}) turn {
	return func(ctx context.Context, _ int) error {
		return l.Do(ctx, func(ctx context.Context) error { return c.increment(ctx, client) })
	}
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
	_, err = client.Set(ctx, c.counter, []byte(strconv.Itoa(n+1)))
	c.written.Store(int64(n + 1))
	return err
}

// check looks at the counter, and for nodes that were left behind.
func (c scene) check(t *testing.T, ctx context.Context, want int, dirs ...string) {
	t.Helper()
	testbed.CatchUp(t, c.client)
	require.Equal(t, strconv.Itoa(want), testbed.Get(t, c.client, c.counter), "increments were lost: two were inside")
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
	t.Logf("counter %d, %d hand-overs from the others to us, no node left", want, c.handovers.Load())
}

// contend runs our side of it: several clients, each with many turns. It returns when the peers
// and our clients are done.
func (s stage) contend(t *testing.T, ctx context.Context, peers peers, take func(client *framework.Client) (turn, error)) {
	t.Helper()
	var wg sync.WaitGroup
	for range others {
		client := s.client(t)
		once := testbed.Must(take(client))
		wg.Go(func() {
			for n := range each {
				if err := once(ctx, n); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	peers.hear(t, ctx, "done")
	wg.Wait()
}

// until waits as long as a peer of Java's may take to return.
func until(t *testing.T, ctx context.Context, condition func() bool, what string) {
	t.Helper()
	for !condition() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			require.FailNow(t, "waited in vain", what)
		}
	}
}
