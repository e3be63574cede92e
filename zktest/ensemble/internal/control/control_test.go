package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/zktest/ensemble/internal/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake records the calls.
type fake struct {
	calls chan string
	err   error
}

func (f *fake) call(what string, args ...any) error {
	f.calls <- strings.TrimSpace(fmt.Sprintln(append([]any{what}, args...)...))
	return f.err
}

func (f *fake) Servers() []string                               { return []string{"host:1", "host:2"} }
func (f *fake) StartServer(i int) error                         { return f.call("StartServer", i) }
func (f *fake) StopServer(i int) error                          { return f.call("StopServer", i) }
func (f *fake) KillServer(i int) error                          { return f.call("KillServer", i) }
func (f *fake) PauseServer(i int) error                         { return f.call("PauseServer", i) }
func (f *fake) ResumeServer(i int) error                        { return f.call("ResumeServer", i) }
func (f *fake) Partition(i int) error                           { return f.call("Partition", i) }
func (f *fake) Freeze(i int) error                              { return f.call("Freeze", i) }
func (f *fake) CutConnections(i int) error                      { return f.call("CutConnections", i) }
func (f *fake) RefuseConnections(i int) error                   { return f.call("RefuseConnections", i) }
func (f *fake) Heal() error                                     { return f.call("Heal") }
func (f *fake) ExpireSession(_ context.Context, id int64) error { return f.call("ExpireSession", id) }
func (f *fake) WaitForQuorum(context.Context) error             { return f.call("WaitForQuorum") }
func (f *fake) Leader(context.Context) (int, error)             { return 2, f.call("Leader") }
func (f *fake) Close() error                                    { return f.call("Close") }
func (f *fake) received(t *testing.T) string                    { return receive(t, f.calls) }
func (f *fake) start() func(context.Context, control.Order) (control.Ensemble, error) {
	return func(context.Context, control.Order) (control.Ensemble, error) { return f, nil }
}

func newFake() *fake { return &fake{calls: make(chan string, 10)} }

func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Minute):
		t.Fatal("nothing came")
	}
	return v
}

// serve serves a handler whose requests' contexts end when stop is called.
func serve(t *testing.T, handler http.Handler) (server *httptest.Server, stop func()) {
	ctx, stop := context.WithCancel(t.Context())
	server = httptest.NewUnstartedServer(handler)
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	t.Cleanup(func() {
		stop()
		server.Close()
	})
	return server, stop
}

// send sends a request and returns its answer, which stays open.
func send(t *testing.T, server *httptest.Server, request, body string) *http.Response {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	response, err := server.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func text(t *testing.T, response *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return strings.TrimSpace(string(body))
}

// create starts an ensemble and returns the answer, which stays open.
func create(t *testing.T, server *httptest.Server) *http.Response {
	t.Helper()
	response := send(t, server, "POST /ensembles", "{}")
	require.Equal(t, http.StatusOK, response.StatusCode)
	var started control.Started
	require.NoError(t, json.NewDecoder(response.Body).Decode(&started))
	require.Equal(t, control.Started{ID: "1", Servers: []string{"host:1", "host:2"}}, started)
	return response
}

// TestEachRequestCallsItsMethod takes the requests that the client's test takes, too: they fit each
// other.
func TestEachRequestCallsItsMethod(t *testing.T) {
	f := newFake()
	server, _ := serve(t, control.New(f.start()))
	create(t, server)
	file, err := os.ReadFile("testdata/requests.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(file)) {
		request, call, _ := strings.Cut(strings.TrimSpace(line), " -> ")
		response := send(t, server, request, "")
		require.Less(t, response.StatusCode, 400, request)
		require.Equal(t, call, f.received(t), request)
		if call == "Leader" {
			require.Equal(t, "2", text(t, response))
		}
	}
}

func TestEnsembleIsRemoved(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, server *httptest.Server, answer *http.Response, stop func()){
		"when its client has gone": func(t *testing.T, _ *httptest.Server, answer *http.Response, _ func()) {
			require.NoError(t, answer.Body.Close())
		},
		"at shutdown": func(_ *testing.T, _ *httptest.Server, _ *http.Response, stop func()) { stop() },
		"at the client's request, once": func(t *testing.T, server *httptest.Server, answer *http.Response, _ func()) {
			require.Equal(t, http.StatusNoContent, send(t, server, "DELETE /ensembles/1", "").StatusCode)
			require.Empty(t, text(t, answer), "the answer to the start ends")
			require.Equal(t, http.StatusNotFound, send(t, server, "DELETE /ensembles/1", "").StatusCode)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			server, stop := serve(t, control.New(f.start()))
			end(t, server, create(t, server), stop)
			require.Equal(t, "Close", f.received(t))
			stop()
			server.Close() // which waits for the handlers
			require.Empty(t, f.calls)
		})
	}
}

func TestStartEndsWithItsClient(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	server, _ := serve(t, control.New(func(ctx context.Context, _ control.Order) (control.Ensemble, error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/ensembles", strings.NewReader("{}"))
	require.NoError(t, err)
	go func() {
		<-began
		cancel()
	}()
	_, err = server.Client().Do(r)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, receive(t, ended), context.Canceled)
}

func TestOrderReachesStart(t *testing.T) {
	orders := make(chan control.Order, 1)
	server, _ := serve(t, control.New(func(_ context.Context, o control.Order) (control.Ensemble, error) {
		orders <- o
		return nil, errors.New("no Docker engine is running")
	}))
	response := send(t, server, "POST /ensembles", `{"servers":1,"env":{"JVMFLAGS":"-Da=b"},"files":{"/a":"b"},"shared":true}`)
	require.Equal(t,
		control.Order{Servers: 1, Env: map[string]string{"JVMFLAGS": "-Da=b"}, Files: map[string]string{"/a": "b"}, Shared: true}, receive(t, orders))
	require.Equal(t, http.StatusInternalServerError, response.StatusCode)
	require.Equal(t, "no Docker engine is running", text(t, response))
}

func TestEachErrorHasAStatusAndAText(t *testing.T) {
	f := newFake()
	f.err = errors.New("there are 2")
	server, _ := serve(t, control.New(f.start()))
	create(t, server)
	for _, c := range []struct {
		request, body string
		status        int
		text          string
	}{
		{"POST /ensembles", `{"server":1}`, http.StatusBadRequest, `unknown field "server"`},
		{"POST /ensembles/1/kill-server?n=5", "", http.StatusInternalServerError, "there are 2"},
		{"POST /ensembles/1/kill-server?n=x", "", http.StatusBadRequest, "invalid syntax"},
		{"POST /ensembles/1/explode", "", http.StatusNotFound, "no such"},
		{"POST /ensembles/2/heal", "", http.StatusNotFound, "no such"},
		{"DELETE /ensembles/1", "", http.StatusInternalServerError, "there are 2"},
	} {
		response := send(t, server, c.request, c.body)
		assert.Equal(t, c.status, response.StatusCode, c.request)
		assert.Contains(t, text(t, response), c.text, c.request)
	}
}
