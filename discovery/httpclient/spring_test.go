package httpclient_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/httpclient"
	"github.com/gocurator/curator/internal/test/jvm"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

// An application of Spring Boot 4.0.7 and Spring Cloud ZooKeeper 5.0.2, and a program in Go: they
// find and call each other, even while sessions end and the server restarts, and share a lock and a
// leader. Spring is started once.
func TestBesideSpring(t *testing.T) {
	testlevel.Need(t, testlevel.Test)
	server := zktest.NewServer(t)
	java := jvm.Resolve(t, "spring", "../../test/interop/peers/spring/pom.xml").
		Compile(t, []string{"testdata/spring/peer/App.java"}, "testdata/spring").
		Start(t, "peer.App", "--server.port=0", "--spring.cloud.zookeeper.connect-string="+server.Servers()[0])
	java.Await(t, "STARTED")
	ctx := testbed.Context(t)
	client := testbed.NewClient(t, server.Servers())
	d := testbed.Must(discovery.New[discovery.Metadata](client, "/services"))
	w := testbed.Must(d.Watch(ctx, "spring-app"))
	defer w.Close()
	transport := testbed.Must(httpclient.New(w, discovery.RoundRobin))
	defer transport.CloseIdleConnections()
	spring := func(path string) (string, error) {
		request := testbed.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://spring-app"+path, nil))
		answer, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return string(body), err
	}
	ask := func(path string) string {
		text, err := spring(path)
		require.NoError(t, err)
		return text
	}

	t.Run("Spring calls Go", func(t *testing.T) {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "go") }))
		defer service.Close()
		number := service.Listener.Addr().(*net.TCPAddr).Port
		reg := testbed.Must(d.Register(ctx, discovery.Spring("go-app", "127.0.0.1", number, nil)))
		require.Equal(t, "go 0", ask("/call?name=go-app&times=50"))
		i := reg.Instance()
		i.Payload.Metadata = map[string]string{"instance_status": "OUT_OF_SERVICE"}
		require.NoError(t, reg.Update(ctx, i))
		require.Contains(t, ask("/call?name=go-app&times=3"), "No instances available", "it is out of service")
		// An instance that is built anew has no class: Spring casts every payload to its own.
		require.NoError(t, reg.Update(ctx, discovery.Instance[discovery.Metadata]{
			Name: "go-app", Address: "127.0.0.1", Port: number, Payload: discovery.Spring("go-app", "127.0.0.1", number, nil).Payload,
		}))
		require.Equal(t, "go 0", ask("/call?name=go-app&times=50"))

		require.NoError(t, server.ExpireSession(testbed.Session(t, client).ID()))
		// Java may see the list without the instance: how many calls fail depends on its timing.
		t.Logf("while the session ended: %s", ask("/call?name=go-app&times=200"))
		for there, changed := reg.Present(); !there; there, changed = reg.Present() {
			<-changed
		}
		require.Equal(t, "go 0", ask("/call?name=go-app&times=50"))

		v2 := discovery.Spring("go-app/v2", "127.0.0.1", number, nil)
		require.ErrorIs(t, testbed.Err(d.Register(ctx, v2)), discovery.ErrNested)
		require.Equal(t, "go 0", ask("/call?name=go-app&times=50"), "no node of it is left")
		require.NoError(t, reg.Close())
	})
	noCallIsLost := func(t *testing.T, disturb func(session int64) error) {
		path := w.Instances()[0].Path()
		before := testbed.ServerStat(t, server, path)
		require.NoError(t, disturb(before.EphemeralOwner))
		for { // until Spring has created its node again
			require.Equal(t, "spring", ask("/hello"))
			if now, err := server.Stat(path); err == nil && now.Czxid != before.Czxid {
				break
			}
		}
		for range 100 {
			require.Equal(t, "spring", ask("/hello"))
		}
	}
	t.Run("no call is lost while the session of Spring ends", func(t *testing.T) {
		noCallIsLost(t, server.ExpireSession)
	})
	t.Run("no call is lost while the server restarts", func(t *testing.T) {
		testlevel.Need(t, testlevel.Nightly)
		for range 3 {
			noCallIsLost(t, func(int64) error { return server.Restart() })
		}
	})
	t.Run("a status", func(t *testing.T) {
		address := w.Instances()[0].Addr(w.Instances()[0].Port)
		set := func(status string) {
			answer := testbed.Must(http.Get("http://" + address + "/status?to=" + status))
			require.NoError(t, answer.Body.Close())
			for list, err := range w.Observe(ctx) {
				require.NoError(t, err)
				if len(list) == 1 && list[0].Disabled == (status != "UP") {
					return
				}
			}
		}
		set("OUT_OF_SERVICE")
		require.ErrorIs(t, testbed.Err(spring("/hello")), discovery.ErrNoInstance)
		set("UP")
		require.Equal(t, "spring", ask("/hello"))
	})
	t.Run("a lock", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "number")
		require.NoError(t, os.WriteFile(file, []byte("0"), 0o600))
		m := testbed.Must(mutex.New(client, "/spring-locks/key"))
		ended := make(chan error, 1)
		go func() { // ends with its increments
			for range 200 {
				err := m.Do(ctx, func(context.Context) error {
					text, err := os.ReadFile(file)
					if err != nil {
						return err
					}
					n, err := strconv.Atoi(string(text))
					if err != nil {
						return err
					}
					return os.WriteFile(file, []byte(fmt.Sprint(n+1)), 0o600)
				})
				if err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
		require.Equal(t, "ok", ask("/increment?times=200&file="+url.QueryEscape(file)))
		require.NoError(t, <-ended)
		text := testbed.Must(os.ReadFile(file))
		require.Equal(t, "400", string(text))
	})
	t.Run("a leader", func(t *testing.T) {
		require.Equal(t, "true", ask("/leads"))
		election := testbed.Must(leader.New(client, "/spring-integration/leader/role", leader.WithSelector()))
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, testbed.Err(election.Campaign(short)), context.DeadlineExceeded, "Spring leads")
		stat := testbed.ServerStat(t, server, w.Instances()[0].Path())
		java.Kill()
		require.NoError(t, server.ExpireSession(stat.EphemeralOwner)) // it would last for 10 s
		term := testbed.Must(election.Campaign(ctx))
		require.NoError(t, term.Release())
	})
	t.Run("killed", func(t *testing.T) {
		for list, err := range w.Observe(ctx) {
			require.NoError(t, err)
			if len(list) == 0 {
				return
			}
		}
	})
}
