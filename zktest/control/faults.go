package control

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gocurator/curator/zktest"
	"github.com/gocurator/curator/zktest/internal/tree"
)

func (h *handler) faultRoutes() []route {
	s := h.server
	return []route{
		{"POST", "/freeze", `drop the traffic of sessions, or of all sessions: {"sessions": ["0x1"]}`, call(h.links(s.Freeze))},
		{"POST", "/thaw", "resume the traffic of sessions, or of all sessions", call(h.links(s.Thaw))},
		{"POST", "/cut", "cut all connections", call(func(*http.Request, none) (none, error) {
			s.CutConnections()
			return none{}, nil
		})},
		{"POST", "/refuse", `refuse connections, handshakes (as a Keeper without a leader does), or credentials: {"connections": true, "sessions": false, "credentials": false}`, call(h.refuse)},
		{"POST", "/inject", `inject a fault into the nth selected request: {"fault": "lose reply", "nth": 0, "ops": ["create"], "path": "/a", "session": "0x1"}`, call(h.inject)},
		{"POST", "/block", `hold requests, or with "replies" their replies: {"replies": true, "ops": ["delete"]}`, call(h.block)},
		{"POST", "/delay", `delay requests: {"by": "200ms", "path": "/a"}`, call(h.delay)},
		{"GET", "/handles/{id}", "report whether a request has met an injection or waits at a gate; ?wait=5s waits for one", call(h.look)},
		{"DELETE", "/handles/{id}", "open a gate or remove a delay", call(h.end)},
		{"POST", "/clear", "remove all faults", call(h.clear)},
	}
}

// links is Freeze or Thaw.
func (h *handler) links(f func(...int64)) func(*http.Request, struct {
	Sessions []string `json:"sessions"`
}) (none, error) {
	return func(_ *http.Request, in struct {
		Sessions []string `json:"sessions"`
	},
	) (none, error) {
		ids, err := parseSessions(in.Sessions)
		if err != nil {
			return none{}, err
		}
		f(ids...)
		return none{}, nil
	}
}

func (h *handler) refuse(_ *http.Request, in struct {
	Connections *bool `json:"connections"` // left as it is if missing
	Sessions    *bool `json:"sessions"`
	Credentials *bool `json:"credentials"`
},
) (none, error) {
	if in.Connections != nil {
		h.server.RefuseConnections(*in.Connections)
	}
	if in.Sessions != nil {
		h.server.RefuseSessions(*in.Sessions)
	}
	if in.Credentials != nil {
		h.server.RefuseCredentials(*in.Credentials)
	}
	return none{}, nil
}

// match selects requests by all fields that are given.
type match struct {
	Ops     []string `json:"ops"`
	Path    string   `json:"path"` // it begins with this
	Session string   `json:"session"`
}

func (m match) parse() ([]zktest.Match, error) {
	var all []zktest.Match
	if len(m.Ops) > 0 {
		if err := tree.CheckOps(m.Ops); err != nil {
			return nil, err
		}
		all = append(all, zktest.OnOp(m.Ops...))
	}
	if m.Path != "" {
		all = append(all, zktest.OnPath(m.Path))
	}
	if m.Session != "" {
		id, err := parseSession(m.Session)
		if err != nil {
			return nil, err
		}
		all = append(all, zktest.OnSession(id))
	}
	return all, nil
}

func parseFault(name string) (zktest.Fault, error) {
	for f := zktest.FailBefore; f <= zktest.LoseWakeup; f++ {
		if f.String() == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("unknown fault %q: must be %q, %q, %q, %q or %q", name,
		zktest.FailBefore, zktest.LoseReply, zktest.ExpireBefore, zktest.ExpireAfter, zktest.LoseWakeup)
}

// handle is an injection, a gate or a delay that a client has created.
type handle struct {
	met  <-chan struct{} // closed when a request has met it; nil for a delay
	what func() string
	end  func() // nil if it cannot be ended
}

type handleAnswer struct {
	ID   string `json:"id"`
	Met  bool   `json:"met"`
	What string `json:"what"`
}

// add gives a handle an id.
func (h *handler) add(one handle) handleAnswer {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	id := strconv.Itoa(h.last)
	h.handles[id] = one
	return handleAnswer{ID: id, What: one.what()}
}

// find returns the handle that a request names.
func (h *handler) find(r *http.Request) (string, handle, error) {
	id := r.PathValue("id")
	h.mu.Lock()
	defer h.mu.Unlock()
	one, found := h.handles[id]
	if !found {
		return "", handle{}, fmt.Errorf("%w: %s", errNoHandle, id)
	}
	return id, one, nil
}

func (h *handler) inject(_ *http.Request, in struct {
	match
	Fault string `json:"fault"`
	Nth   int    `json:"nth"`
},
) (handleAnswer, error) {
	fault, err := parseFault(in.Fault)
	if err != nil {
		return handleAnswer{}, err
	}
	if in.Nth < 0 {
		return handleAnswer{}, fmt.Errorf("invalid nth %d: must be at least 0", in.Nth)
	}
	matches, err := in.parse()
	if err != nil {
		return handleAnswer{}, err
	}
	i := h.server.Inject(fault, in.Nth, matches...)
	return h.add(handle{met: i.Done(), what: i.String}), nil
}

func (h *handler) block(_ *http.Request, in struct {
	match
	Replies bool `json:"replies"`
},
) (handleAnswer, error) {
	matches, err := in.parse()
	if err != nil {
		return handleAnswer{}, err
	}
	block, what := h.server.Block, "gate for requests"
	if in.Replies {
		block, what = h.server.BlockReplies, "gate for replies"
	}
	gate := block(matches...)
	return h.add(handle{gate.Arrived(), func() string { return what }, gate.Open}), nil
}

func (h *handler) delay(_ *http.Request, in struct {
	match
	By string `json:"by"`
},
) (handleAnswer, error) {
	by, err := parseDuration("by", in.By)
	if err != nil {
		return handleAnswer{}, err
	}
	matches, err := in.parse()
	if err != nil {
		return handleAnswer{}, err
	}
	remove := h.server.Delay(by, matches...)
	return h.add(handle{what: func() string { return "delay by " + by.String() }, end: remove}), nil
}

func (h *handler) look(r *http.Request, _ none) (handleAnswer, error) {
	id, one, err := h.find(r)
	if err != nil {
		return handleAnswer{}, err
	}
	if text := r.URL.Query().Get("wait"); text != "" {
		timeout, err := parseDuration("wait", text)
		if err != nil {
			return handleAnswer{}, err
		}
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		select {
		case <-one.met:
		case <-timer.C:
		case <-r.Context().Done():
		}
	}
	met := false
	select {
	case <-one.met:
		met = true
	default:
	}
	return handleAnswer{id, met, one.what()}, nil
}

func (h *handler) end(r *http.Request, _ none) (none, error) {
	id, one, err := h.find(r)
	if err != nil {
		return none{}, err
	}
	if one.end == nil {
		return none{}, fmt.Errorf("handle %s is an injection, which only /clear removes", id)
	}
	one.end()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.handles, id)
	return none{}, nil
}

func (h *handler) clear(*http.Request, none) (none, error) {
	h.server.ClearFaults()
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.handles)
	return none{}, nil
}
