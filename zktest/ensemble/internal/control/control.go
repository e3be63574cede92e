// Package control starts, breaks and removes ensembles at the request of other processes, over
// HTTP.
//
//	POST   /ensembles                    starts an ensemble; the body is an Order
//	POST   /ensembles/{id}/{action}?n=1  calls a method; n is a server or a session
//	DELETE /ensembles/{id}               removes an ensemble, and answers when that is done
//
// The answer to a start is one line of JSON, a Started. Then the connection stays open: when it
// ends, the ensemble is removed, unless it is shared. So nothing is left of a client that crashes.
// An error is a status of 400 or more and a message.
package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
)

// Ensemble is the part of an ensemble that a client can control.
type Ensemble interface {
	Servers() []string
	StartServer(i int) error
	StopServer(i int) error
	KillServer(i int) error
	PauseServer(i int) error
	ResumeServer(i int) error
	Partition(i int) error
	Freeze(i int) error
	CutConnections(i int) error
	RefuseConnections(i int) error
	Heal() error
	ExpireSession(ctx context.Context, id int64) error
	WaitForQuorum(ctx context.Context) error
	Leader(ctx context.Context) (int, error)
	Close() error
}

// Order describes the ensemble to start. Zero fields select the defaults.
type Order struct {
	Servers    int               `json:"servers,omitempty"`    // number of servers
	Env        map[string]string `json:"env,omitempty"`        // environment of the containers
	Properties map[string]string `json:"properties,omitempty"` // properties of the servers
	Files      map[string]string `json:"files,omitempty"`      // contents by path in the containers
	// Shared requests the ensemble that all tests share. No other field is set then.
	Shared bool `json:"shared,omitempty"`
}

// Started reports that an ensemble has a quorum.
type Started struct {
	ID      string   `json:"id"`
	Servers []string `json:"servers"` // client addresses
}

// New returns a handler that starts ensembles with start. When a client disconnects, its call of
// start is canceled and its ensemble is removed. At shutdown the server must cancel the contexts of
// its requests, and wait for the handlers.
func New(start func(context.Context, Order) (Ensemble, error)) http.Handler {
	c := &control{start: start, running: make(map[string]*entry)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ensembles", c.create)
	mux.HandleFunc("DELETE /ensembles/{id}", c.remove)
	mux.HandleFunc("POST /ensembles/{id}/{action}", c.act)
	return mux
}

type control struct {
	start func(context.Context, Order) (Ensemble, error)

	mu      sync.Mutex // guards what follows
	last    int
	running map[string]*entry
}

// entry is a running ensemble.
type entry struct {
	Ensemble
	removed chan struct{} // closed by the handler that removes it at the client's request
}

func (c *control) create(w http.ResponseWriter, r *http.Request) {
	var order Order
	body := json.NewDecoder(r.Body)
	body.DisallowUnknownFields()
	if err := body.Decode(&order); err != nil {
		http.Error(w, fmt.Sprintf("invalid order: %v", err), http.StatusBadRequest)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // the context ends with the client only after the whole body
	e, err := c.start(r.Context(), order)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	id, added := c.add(e)
	defer func() {
		if c.take(id) == nil {
			return // the client asked for the removal, and gets its error
		}
		if err := e.Close(); err != nil {
			slog.Error("cannot remove ensemble", "id", id, "err", err)
		}
	}()
	if err := json.NewEncoder(w).Encode(Started{id, e.Servers()}); err != nil {
		return // the client has disconnected
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	select {
	case <-r.Context().Done():
	case <-added.removed:
	}
}

func (c *control) remove(w http.ResponseWriter, r *http.Request) {
	e := c.take(r.PathValue("id"))
	if e == nil {
		http.Error(w, fmt.Sprintf("no such ensemble: %q", r.PathValue("id")), http.StatusNotFound)
		return
	}
	defer close(e.removed)
	if err := e.Close(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// actions are the methods that a request can call. An answer of none is not sent.
var actions = map[string]func(ctx context.Context, e Ensemble, n int64) (answer int, err error){
	"start-server":       onServer(Ensemble.StartServer),
	"stop-server":        onServer(Ensemble.StopServer),
	"kill-server":        onServer(Ensemble.KillServer),
	"pause-server":       onServer(Ensemble.PauseServer),
	"resume-server":      onServer(Ensemble.ResumeServer),
	"partition":          onServer(Ensemble.Partition),
	"freeze":             onServer(Ensemble.Freeze),
	"cut-connections":    onServer(Ensemble.CutConnections),
	"refuse-connections": onServer(Ensemble.RefuseConnections),
	"heal":               func(_ context.Context, e Ensemble, _ int64) (int, error) { return none, e.Heal() },
	"expire-session": func(ctx context.Context, e Ensemble, n int64) (int, error) {
		return none, e.ExpireSession(ctx, n)
	},
	"wait-for-quorum": func(ctx context.Context, e Ensemble, _ int64) (int, error) {
		return none, e.WaitForQuorum(ctx)
	},
	"leader": func(ctx context.Context, e Ensemble, _ int64) (int, error) { return e.Leader(ctx) },
}

const none = -1

func onServer(f func(e Ensemble, i int) error) func(context.Context, Ensemble, int64) (int, error) {
	return func(_ context.Context, e Ensemble, n int64) (int, error) { return none, f(e, int(n)) }
}

func (c *control) act(w http.ResponseWriter, r *http.Request) {
	action := actions[r.PathValue("action")]
	c.mu.Lock()
	e := c.running[r.PathValue("id")]
	c.mu.Unlock()
	if action == nil || e == nil {
		http.Error(w, fmt.Sprintf("no such ensemble or action: %q, %q", r.PathValue("id"), r.PathValue("action")), http.StatusNotFound)
		return
	}
	// No server has the number -1.
	n, err := strconv.ParseInt(cmp.Or(r.URL.Query().Get("n"), "-1"), 10, 64)
	if err != nil {
		http.Error(w, fmt.Sprintf("invalid n: %v", err), http.StatusBadRequest)
		return
	}
	answer, err := action(r.Context(), e, n)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if answer != none {
		fmt.Fprintln(w, answer)
	}
}

func (c *control) add(e Ensemble) (id string, added *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id, added = strconv.Itoa(c.last), &entry{e, make(chan struct{})}
	c.running[id] = added
	return id, added
}

// take returns an ensemble and forgets it, or returns nil if it is not there.
func (c *control) take(id string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.running[id]
	delete(c.running, id)
	return e
}
