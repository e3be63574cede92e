package control

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/zktest"
)

func (h *handler) nodeRoutes() []route {
	return []route{
		{"GET", "/node?path=/", "a node with its data, children and stat", call(h.get)},
		{"PUT", "/node", `create a node and its parents, or change it: {"path": "/a", "text": "hello"}, or "data" in base64`, call(h.put)},
		{"DELETE", "/node?path=/", "delete a node and its descendants", call(h.delete)},
		{"GET", "/nodes", "dump all nodes, in the form of POST /nodes", call(func(*http.Request, none) (nodes, error) {
			return nodes{h.server.Dump()}.orEmpty(), nil
		})},
		{"POST", "/nodes", "create or change these nodes; skip ephemeral ones", call(func(_ *http.Request, in nodes) (none, error) {
			return none{}, h.server.Load(in.Nodes)
		})},
		{"POST", "/flush", "delete all nodes", call(func(*http.Request, none) (none, error) {
			h.server.Flush()
			return none{}, nil
		})},
		{"GET", "/trace", "stream requests and watch events, one line of text each, until the client disconnects", h.trace},
	}
}

type nodes struct {
	Nodes []zktest.Node `json:"nodes"`
}

// orEmpty returns an empty list instead of nil, so that JSON has a list.
func (n nodes) orEmpty() nodes {
	if n.Nodes == nil {
		n.Nodes = []zktest.Node{}
	}
	return n
}

type nodeAnswer struct {
	Node     zktest.Node `json:"node"`
	Children []string    `json:"children"`
	Stat     zk.Stat     `json:"stat"`
}

func (h *handler) get(r *http.Request, _ none) (nodeAnswer, error) {
	path := r.URL.Query().Get("path")
	out := nodeAnswer{Node: zktest.Node{Path: path}, Children: []string{}}
	children, err := h.server.Children(path)
	if err != nil {
		return nodeAnswer{}, err
	}
	out.Children = append(out.Children, children...)
	if out.Node.Data, err = h.server.Get(path); err != nil {
		return nodeAnswer{}, err
	}
	if out.Stat, err = h.server.Stat(path); err != nil {
		return nodeAnswer{}, err
	}
	out.Node.Owner = out.Stat.EphemeralOwner
	return out, nil
}

func (h *handler) put(_ *http.Request, in zktest.Node) (none, error) {
	if in.Owner != 0 {
		return none{}, errors.New("cannot create an ephemeral node without a session")
	}
	return none{}, h.server.Load([]zktest.Node{in})
}

func (h *handler) delete(r *http.Request, _ none) (none, error) {
	return none{}, h.server.Delete(r.URL.Query().Get("path"))
}

// lines holds the lines of a trace that were not written yet. There is no limit: a client that
// reads slowly must not delay the server.
type lines struct {
	mu   sync.Mutex // guards what follows
	text bytes.Buffer
	more chan struct{} // capacity 1
}

func (l *lines) add(e zktest.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	session := e.Session
	fmt.Fprintf(&l.text, "%s %s\n", sessionText(session), e)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// take returns what there is.
func (l *lines) take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := bytes.Clone(l.text.Bytes())
	l.text.Reset()
	return text
}

func (h *handler) trace(w http.ResponseWriter, r *http.Request) {
	l := &lines{more: make(chan struct{}, 1)}
	defer h.server.Trace(l.add)()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	for {
		if _, err := w.Write(l.take()); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case <-l.more:
		case <-r.Context().Done():
			return
		}
	}
}
