package ensemble_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/zktest/ensemble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testContext ends when a test gives up.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// quiet drops what go-zookeeper prints.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect returns a connection that has a session.
func connect(t *testing.T, servers ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(servers, 10*time.Second, zk.WithLogger(quiet{}))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // until its last goroutine ends
		}
	})
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn
			}
		case <-testContext(t).Done():
			t.Fatal("no session")
		}
	}
}

// write succeeds when there is a quorum.
func write(t *testing.T, conn *zk.Conn) error {
	t.Helper()
	_, err := conn.Create(fmt.Sprintf("/write-%d", time.Now().UnixNano()), nil, 0, zk.WorldACL(zk.PermAll))
	return err
}

func TestEnsemble(t *testing.T) {
	e := ensemble.New(t)
	ctx := testContext(t)
	require.Equal(t, 3, e.Size())
	require.Len(t, e.Servers(), 3)

	t.Run("it has a quorum and takes writes", func(t *testing.T) {
		modes := map[string]int{}
		for i := range e.Size() {
			mode, err := e.Mode(ctx, i)
			require.NoError(t, err)
			modes[mode]++
			require.NoError(t, write(t, connect(t, e.Servers()[i])))
		}
		require.Equal(t, map[string]int{"leader": 1, "follower": 2}, modes)
	})

	t.Run("a killed session's nodes are gone", func(t *testing.T) {
		owner, other := connect(t, e.Servers()...), connect(t, e.Servers()...)
		id := owner.SessionID()
		_, err := owner.Create("/owned", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.NoError(t, e.ExpireSession(ctx, id))
		_, err = other.Sync("/owned")
		require.NoError(t, err)
		found, _, err := other.Exists("/owned")
		require.NoError(t, err)
		require.False(t, found)
		require.NoError(t, e.ExpireSession(ctx, id), "again")
	})

	t.Run("a killed leader is replaced and comes back with its data, at its address", func(t *testing.T) {
		before := e.Servers()
		leader, err := e.Leader(ctx)
		require.NoError(t, err)
		_, err = connect(t, before...).Create("/kept", []byte("data"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.NoError(t, e.KillServer(leader))
		require.NoError(t, e.WaitForQuorum(ctx))
		next, err := e.Leader(ctx)
		require.NoError(t, err)
		require.NotEqual(t, leader, next)
		require.NoError(t, e.StartServer(leader))
		require.NoError(t, e.WaitForQuorum(ctx))
		require.Equal(t, before, e.Servers())
		conn := connect(t, before[leader])
		_, err = conn.Sync("/kept")
		require.NoError(t, err)
		data, _, err := conn.Get("/kept")
		require.NoError(t, err)
		require.Equal(t, "data", string(data))
	})

	t.Run("a stopped server comes back", func(t *testing.T) {
		require.NoError(t, e.StopServer(0))
		_, err := e.Mode(ctx, 0)
		require.Error(t, err)
		require.NoError(t, e.WaitForQuorum(ctx))
		require.NoError(t, e.StartServer(0))
		require.NoError(t, e.WaitForQuorum(ctx))
		_, err = e.Mode(ctx, 0)
		require.NoError(t, err)
	})

	t.Run("a paused server stands still and goes on", func(t *testing.T) {
		require.NoError(t, e.PauseServer(1))
		_, err := e.Mode(ctx, 1)
		require.Error(t, err)
		require.NoError(t, e.ResumeServer(1))
		require.NoError(t, e.WaitForQuorum(ctx))
	})

	t.Run("a server cut off from its peers leaves the quorum, and heals", func(t *testing.T) {
		leader, err := e.Leader(ctx)
		require.NoError(t, err)
		follower := (leader + 1) % e.Size()
		require.NoError(t, e.Partition(follower))
		require.NoError(t, e.Partition(follower), "again")
		assert.Eventually(t, func() bool {
			_, err := e.Mode(ctx, follower)
			return err != nil // it has noticed, and says so to clients that still reach it
		}, 10*time.Minute, 100*time.Millisecond)
		require.NoError(t, write(t, connect(t, e.Servers()[leader])))
		require.NoError(t, e.Heal())
		require.NoError(t, e.WaitForQuorum(ctx))
		_, err = e.Mode(ctx, follower)
		require.NoError(t, err)
	})

	t.Run("a frozen link passes nothing and closes nothing", func(t *testing.T) {
		conn := connect(t, e.Servers()...)
		for i := range e.Size() {
			require.NoError(t, e.Freeze(i))
		}
		done := make(chan error, 1)
		go func() { done <- write(t, conn) }()
		select {
		case err := <-done:
			t.Fatalf("got through, or was cut: %v", err)
		// nothing to wait for: it is nothing that happens
		case <-time.After(500 * time.Millisecond):
		}
		require.NoError(t, e.Heal())
		require.NoError(t, <-done)
	})

	t.Run("connections are cut, and refused while the others go on", func(t *testing.T) {
		first := e.Servers()[:1]
		lost, stays := connect(t, first...), connect(t, e.Servers()[1:2]...)
		require.NoError(t, e.RefuseConnections(1))
		require.NoError(t, write(t, stays))
		require.NoError(t, e.CutConnections(0))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			// fails as long as go-zookeeper has not noticed the end
			assert.NoError(c, write(t, lost))
		}, 10*time.Minute, 10*time.Millisecond, "it comes back")
		late, err := net.Dial("tcp", e.Servers()[1])
		require.NoError(t, err)
		defer late.Close()
		_, err = late.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, e.Heal())
		require.NoError(t, write(t, connect(t, e.Servers()[1:2]...)))
	})

	t.Run("there is no server that is not there", func(t *testing.T) {
		require.Error(t, e.KillServer(3))
		require.Error(t, e.Partition(-1))
		require.Error(t, e.ExpireSession(ctx, 0))
	})
}

func TestStandalone(t *testing.T) {
	e := ensemble.New(t, ensemble.WithServers(1), ensemble.WithProperties(map[string]string{"tickTime": "200", "minSessionTimeout": "100"}),
		// Java does not start without the file
		ensemble.WithFile("/flags", "-Xmx200m"), ensemble.WithEnv("JVMFLAGS", "@/flags"))
	mode, err := e.Mode(testContext(t), 0)
	require.NoError(t, err)
	require.Equal(t, "standalone", mode)
	require.NoError(t, write(t, connect(t, e.Servers()...)))
}

// TestNothingIsLeftBehind, even when the test that uses the ensemble panics.
func TestNothingIsLeftBehind(t *testing.T) {
	client, err := docker.NewClientFromEnv()
	require.NoError(t, err)
	mine := func() int {
		host, err := os.Hostname()
		require.NoError(t, err)
		// other processes have ensembles, too
		label := fmt.Sprintf("io.gocurator.owner=%s:%d", host, os.Getpid())
		containers, err := client.ListContainers(docker.ListContainersOptions{All: true, Filters: map[string][]string{"label": {label}}})
		if err != nil {
			t.Skipf("LEFT OUT, needs Docker: %v", err)
		}
		return len(containers)
	}
	before := mine()
	test := &fakeT{}
	func() {
		defer func() { _ = recover() }()
		defer test.end()
		ensemble.New(test, ensemble.WithServers(1))
		require.Equal(t, before+1, mine())
		panic("the test")
	}()
	if test.skipped != "" {
		t.Skipf("LEFT OUT, needs an ensemble: %s", test.skipped)
	}
	require.Equal(t, before, mine())
}

func TestWithoutDockerTheTestIsSkippedOrFails(t *testing.T) {
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
	for promised, want := range map[string]string{"": "skipped", "1": "failed"} {
		t.Setenv("CURATOR_TEST_DOCKER", promised)
		test := &fakeT{}
		func() {
			defer func() { _ = recover() }()
			ensemble.New(test)
		}()
		got := "skipped"
		if test.failed != "" {
			got = "failed"
		}
		assert.Equal(t, want, got)
		assert.Contains(t, test.failed+test.skipped, "no Docker engine is running")
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for name, opt := range map[string]ensemble.Option{
		"no servers": ensemble.WithServers(0), "too many": ensemble.WithServers(10),
		"no such property": ensemble.WithProperties(map[string]string{"tick": "200"}),
		"a relative path":  ensemble.WithFile("jaas.conf", ""), "a directory": ensemble.WithFile("/conf/", ""),
	} {
		_, err := ensemble.Start(t.Context(), opt)
		assert.Error(t, err, name)
	}
}

// TestTheImageThatIsPulled uses an engine without images, and checks the image that it is asked to
// pull.
func TestTheImageThatIsPulled(t *testing.T) {
	for image, want := range map[string]string{
		"zookeeper:3.9":                    "zookeeper 3.9",
		"zookeeper":                        "zookeeper latest",
		"host:5000/zookeeper":              "host:5000/zookeeper latest",
		"host:5000/team/zookeeper:3.9":     "host:5000/team/zookeeper 3.9",
		"host:5000/zookeeper@sha256:01abc": "host:5000/zookeeper sha256:01abc",
	} {
		pulled := make(chan string, 1)
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/_ping"):
			case strings.HasSuffix(r.URL.Path, "/images/create"):
				pulled <- r.FormValue("fromImage") + " " + r.FormValue("tag")
				http.Error(w, "no", http.StatusInternalServerError)
			case strings.Contains(r.URL.Path, "/images/"):
				http.NotFound(w, r)
			default:
				fmt.Fprintln(w, "[]") // there are no containers and no networks
			}
		}))
		t.Setenv("DOCKER_HOST", "tcp://"+engine.Listener.Addr().String())
		t.Setenv("ZOOKEEPER_IMAGE", image)
		_, err := ensemble.Start(t.Context())
		assert.ErrorIs(t, err, ensemble.ErrNoImage)
		select {
		case got := <-pulled:
			assert.Equal(t, want, got)
		default:
			t.Errorf("%s: nothing is pulled: %v", image, err)
		}
		engine.CloseClientConnections()
		engine.Close()
	}
}

// fakeT is a test that can fail without this one failing.
type fakeT struct {
	cleanups        []func()
	failed, skipped string
}

func (f *fakeT) Helper()             {}
func (f *fakeT) Cleanup(c func())    { f.cleanups = append(f.cleanups, c) }
func (f *fakeT) Logf(string, ...any) {}

func (f *fakeT) Fatalf(format string, args ...any) {
	f.failed = fmt.Sprintf(format, args...)
	panic(f.failed)
}

func (f *fakeT) Skipf(format string, args ...any) {
	f.skipped = fmt.Sprintf(format, args...)
	panic(f.skipped)
}

func (f *fakeT) end() {
	for _, c := range f.cleanups {
		c()
	}
}

func Example() {
	ctx := context.Background()
	e, err := ensemble.Start(ctx) // in a test: ensemble.New(t)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	leader, err := e.Leader(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	// Whatever uses e.Servers() must live with this.
	if err := e.KillServer(leader); err != nil {
		fmt.Println(err)
	}
}
