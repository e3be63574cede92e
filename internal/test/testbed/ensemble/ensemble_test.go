package ensemble_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a control server that records requests.
type server struct {
	*httptest.Server
	requests chan string
	gone     chan struct{} // closed when the connection of the start has ended
	status   int           // of all answers but that to a start
}

func newServer(t *testing.T) *server {
	s := &server{requests: make(chan string, 20), gone: make(chan struct{}), status: http.StatusOK}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	t.Setenv(ensemble.Variable, s.URL+"/secret")
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.RequestURI(), "/secret")
	body, _ := io.ReadAll(r.Body) // a body that is cut short is not the one that the test expects
	s.requests <- strings.TrimSpace(r.Method + " " + path + " " + string(body))
	if path != "/ensembles" {
		w.WriteHeader(s.status)
		fmt.Fprintln(w, 2)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"id": "1", "servers": []string{"host:1", "host:2", "host:3"}})
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
	close(s.gone)
}

// TestEachMethodSendsItsRequest takes the requests that the control server's test takes, too: they
// fit each other.
func TestEachMethodSendsItsRequest(t *testing.T) {
	file, err := os.ReadFile("../../../../zktest/ensemble/internal/control/testdata/requests.txt")
	require.NoError(t, err)
	s := newServer(t)
	test := &fakeT{}
	e := ensemble.New(test, ensemble.WithServers(1), ensemble.WithEnv("JVMFLAGS", "-Da=b"), ensemble.WithFile("/a", "b"), ensemble.Shared())
	require.Equal(t, `POST /ensembles {"servers":1,"env":{"JVMFLAGS":"-Da=b"},"files":{"/a":"b"},"shared":true}`, <-s.requests)
	require.Equal(t, []string{"host:1", "host:2", "host:3"}, e.Servers())
	require.Equal(t, 3, e.Size())
	ctx := testbed.Context(t)
	onServer := map[string]func(int) error{
		"StartServer": e.StartServer, "StopServer": e.StopServer, "KillServer": e.KillServer, "PauseServer": e.PauseServer,
		"ResumeServer": e.ResumeServer, "Partition": e.Partition, "Freeze": e.Freeze,
		"CutConnections": e.CutConnections, "RefuseConnections": e.RefuseConnections,
	}
	for line := range strings.Lines(string(file)) {
		request, call, _ := strings.Cut(strings.TrimSpace(line), " -> ")
		var method string
		var n int64
		_, _ = fmt.Sscan(call, &method, &n) // not all have an argument
		switch method {
		case "Leader":
			leader, err := e.Leader(ctx)
			require.NoError(t, err)
			require.Equal(t, 2, leader)
		case "Heal":
			require.NoError(t, e.Heal())
		case "ExpireSession":
			require.NoError(t, e.ExpireSession(ctx, n))
		case "WaitForQuorum":
			require.NoError(t, e.WaitForQuorum(ctx))
		case "Close":
			test.end()
		default:
			require.Contains(t, onServer, method)
			require.NoError(t, onServer[method](int(n)))
		}
		require.Equal(t, request, testbed.Receive(t, s.requests, "a request"))
	}
	require.Empty(t, test.errors)
	testbed.Receive(t, s.gone, "the end of the connection")
}

func TestErrorsOfTheControlServer(t *testing.T) {
	s := newServer(t)
	s.status = http.StatusInternalServerError
	test := &fakeT{}
	e := ensemble.New(test)
	require.EqualError(t, e.KillServer(7), "2", "the text of the answer")
	_, err := e.Leader(t.Context())
	require.EqualError(t, err, "2")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, e.WaitForQuorum(ended), context.Canceled)
	test.end()
	require.Contains(t, test.errors, "cannot be removed: 2")
	testbed.Receive(t, s.gone, "the end of the connection")
}

func TestWithoutControlServer(t *testing.T) {
	for address, want := range map[string]string{"": "skipped: LEFT OUT", "http://127.0.0.1:1": "failed: ensemble: "} {
		t.Setenv(ensemble.Variable, address)
		test := &fakeT{}
		require.PanicsWithValue(t, stopped{}, func() { ensemble.New(test) })
		require.Contains(t, test.errors, want)
	}
}

// TestOnServers calls each method on real servers.
func TestOnServers(t *testing.T) {
	e := ensemble.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	require.Len(t, e.Servers(), 3)
	leader, err := e.Leader(ctx)
	require.NoError(t, err)
	for _, fault := range []struct{ begin, end func(int) error }{
		{e.StopServer, e.StartServer}, {e.KillServer, e.StartServer}, {e.PauseServer, e.ResumeServer},
		{e.Partition, func(int) error { return e.Heal() }}, {e.Freeze, func(int) error { return e.Heal() }},
		{e.CutConnections, e.RefuseConnections}, {e.RefuseConnections, func(int) error { return e.Heal() }},
	} {
		require.NoError(t, fault.begin(leader))
		require.NoError(t, fault.end(leader))
		require.NoError(t, e.WaitForQuorum(ctx))
	}
	require.Error(t, e.KillServer(3))
	require.Error(t, e.ExpireSession(ctx, 0))
}

// fakeT is a test that ends without the real test.
type fakeT struct {
	cleanups []func()
	errors   string
}

// stopped is what a fakeT panics with.
type stopped struct{}

func (f *fakeT) Helper()                           {}
func (f *fakeT) Cleanup(c func())                  { f.cleanups = append(f.cleanups, c) }
func (f *fakeT) Errorf(format string, args ...any) { f.errors += fmt.Sprintf(format, args...) }

func (f *fakeT) Fatalf(format string, args ...any) {
	f.Errorf("failed: "+format, args...)
	panic(stopped{})
}

func (f *fakeT) Skipf(format string, args ...any) {
	f.Errorf("skipped: "+format, args...)
	panic(stopped{})
}

func (f *fakeT) end() {
	for _, c := range f.cleanups {
		c()
	}
}
