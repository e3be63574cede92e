// Package control offers the faults and controls of a [zktest.Server] to programs in other
// languages: an HTTP handler that reads and writes JSON. The program zkserver serves it.
//
//	http.ListenAndServe("127.0.0.1:2180", control.Handler(server))
//
// A client of the handler has full control of the server, so serve it only on the loopback
// interface. Requests from web pages are refused: requests with an Origin, or with a Host that is
// neither localhost nor an IP address.
//
// GET / lists all requests. The reply to any other request is a JSON object. The reply to a failed
// request is {"error": "..."} with the status 400 (invalid request), 403 (web page), 404 (unknown
// session, node, handle or request) or 409 (the node exists, the server is closed or has no
// leader).
package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/gocurator/curator/zktest"
)

// Option configures a [Handler].
type Option func(*handler)

// WithListeners lets requests show, stop and restart these additional addresses from
// [zktest.Server.Listen].
func WithListeners(listeners ...*zktest.Listener) Option {
	return func(h *handler) { h.listeners = append(h.listeners, listeners...) }
}

// Handler serves the faults and controls of a server. It is safe for concurrent use. A request that
// waits, such as for a trace, returns when its client disconnects or the http.Server closes.
func Handler(server *zktest.Server, opts ...Option) http.Handler {
	h := &handler{server: server, handles: make(map[string]handle)}
	for _, opt := range opts {
		opt(h)
	}
	mux := http.NewServeMux()
	for _, r := range h.routes() {
		h.offered = append(h.offered, offer{r.method, strings.TrimSuffix(r.path, "{$}"), r.does})
		mux.HandleFunc(r.method+" "+strings.TrimSuffix(r.path, "?path=/"), r.serve)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusNotFound, failure{fmt.Sprintf("no such request: %s %s; GET / lists all", r.Method, r.URL.Path)})
	})
	return guard(mux)
}

type handler struct {
	server    *zktest.Server
	listeners []*zktest.Listener
	offered   []offer // the offers that GET / lists

	mu      sync.Mutex // guards what follows
	last    int
	handles map[string]handle
}

// offer is a line of GET /.
type offer struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Does   string `json:"does"`
}

// route is a request that the handler knows.
type route struct {
	method, path, does string
	serve              http.HandlerFunc
}

func (h *handler) routes() []route {
	return slices.Concat(h.serverRoutes(), h.faultRoutes(), h.nodeRoutes())
}

// none is a request or an answer without anything in it.
type none struct{}

// call returns a handler for a function from JSON to JSON. A request without a body is an empty
// object.
func call[In, Out any](f func(r *http.Request, in In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil && len(bytes.TrimSpace(body)) > 0 {
			err = decode(body, &in)
		}
		if err != nil {
			answer(w, http.StatusBadRequest, failure{err.Error()})
			return
		}
		out, err := f(r, in)
		if err != nil {
			answer(w, status(err), failure{err.Error()})
			return
		}
		answer(w, http.StatusOK, out)
	}
}

// maxBody is the longest request, in bytes: a dump may be long.
const maxBody = 256 << 20

type failure struct {
	Error string `json:"error"`
}

// decode reads one JSON value, in which everything must be known.
func decode(body []byte, in any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return fmt.Errorf("invalid body: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("invalid body: data after the JSON object")
	}
	return nil
}

func answer(w http.ResponseWriter, status int, out any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // if it fails, the client has disconnected
}

// errNoHandle means that there is no such injection, gate or delay.
var errNoHandle = errors.New("no such handle")

func status(err error) int {
	switch {
	case errors.Is(err, zktest.ErrNoNode), errors.Is(err, zktest.ErrNoSession), errors.Is(err, errNoHandle):
		return http.StatusNotFound
	case errors.Is(err, zktest.ErrNodeExists), errors.Is(err, zktest.ErrClosed), errors.Is(err, zktest.ErrNoLeader):
		return http.StatusConflict
	}
	return http.StatusBadRequest
}

// guard refuses requests of web pages, which could reach this machine's loopback interface.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if r.Header.Get("Origin") != "" || host != "localhost" && net.ParseIP(strings.Trim(host, "[]")) == nil {
			answer(w, http.StatusForbidden, failure{"requests from web pages are refused"})
			return
		}
		next.ServeHTTP(w, r)
	})
}
