package control

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gocurator/curator/zktest"
)

func (h *handler) serverRoutes() []route {
	s := h.server
	do := func(f func()) http.HandlerFunc {
		return call(func(*http.Request, none) (none, error) {
			f()
			return none{}, nil
		})
	}
	return []route{
		{"GET", "/{$}", "list the requests", call(func(*http.Request, none) ([]offer, error) { return h.offered, nil })},
		{"GET", "/status", "addresses, sessions, and counts of requests since the last reset", call(h.status)},
		{"GET", "/timeline", "the timeline as a page, of a server with a timeline", h.timeline},
		{"POST", "/note", `add a remark to the timeline: {"note": "deploy"}`, call(h.note)},
		{"POST", "/reset-counts", "reset the counts", do(s.ResetCounts)},
		{"POST", "/expire", `expire a session: {"session": "0x1"}`, call(h.expire)},
		{"POST", "/stop", `stop the server, or one address: {"addr": "127.0.0.1:2181"}`, call(h.stop)},
		{"POST", "/restart", "restart the server, or one address", call(h.restart)},
		{"POST", "/pause", "suspend the server and its clock", do(s.Pause)},
		{"POST", "/resume", "resume after a pause", do(s.Resume)},
		{"POST", "/clock", `advance the clock: {"advance": "30s"}`, call(h.clock)},
		{"POST", "/reap", "check containers and TTL nodes now", do(s.ReapContainers)},
	}
}

func (h *handler) timeline(w http.ResponseWriter, _ *http.Request) {
	var page bytes.Buffer
	if err := h.server.Timeline().WriteHTML(&page); err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = page.WriteTo(w) // the client may have left
}

func (h *handler) note(_ *http.Request, in struct {
	Note string `json:"note"`
},
) (none, error) {
	if in.Note == "" {
		return none{}, errors.New("missing note")
	}
	h.server.Timeline().Note(in.Note)
	return none{}, nil
}

type statusAnswer struct {
	Addresses []address      `json:"addresses"`
	Sessions  []session      `json:"sessions"`
	Watches   int            `json:"watches"`
	Requests  map[string]int `json:"requests"`
	Events    int            `json:"events"`
	BytesIn   int64          `json:"bytesIn"`
	BytesOut  int64          `json:"bytesOut"`
}

type address struct {
	Addr      string `json:"addr"`
	Listening bool   `json:"listening"`
}

type session struct {
	Session   string   `json:"session"`
	Timeout   string   `json:"timeout"`
	Connected bool     `json:"connected"`
	Owns      []string `json:"owns"`
}

func (h *handler) status(*http.Request, none) (statusAnswer, error) {
	counts := h.server.Requests()
	out := statusAnswer{
		Addresses: []address{}, Sessions: []session{}, Watches: h.server.WatchCount(), Requests: map[string]int{},
		Events: counts.WatchEventsSent, BytesIn: counts.BytesIn, BytesOut: counts.BytesOut,
	}
	for _, l := range h.listeners {
		out.Addresses = append(out.Addresses, address{l.Addr(), l.Listening()})
	}
	for _, s := range h.server.Sessions() {
		owns := s.Owns
		if owns == nil {
			owns = []string{}
		}
		out.Sessions = append(out.Sessions, session{sessionText(s.ID), s.Timeout.String(), s.Connected, owns})
	}
	for op, n := range counts.Requests {
		out.Requests[op] = n
	}
	return out, nil
}

// sessionText is how ZooKeeper's tools write a session's id.
func sessionText(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }

func parseSession(text string) (int64, error) {
	id, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("invalid session %q: must be a number such as 0x1000", text)
	}
	return int64(id), nil
}

func parseSessions(texts []string) (ids []int64, err error) {
	for _, text := range texts {
		id, err := parseSession(text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func parseDuration(what, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("invalid %s %q: must be a duration such as 1.5s", what, text)
	}
	return d, nil
}

func (h *handler) expire(_ *http.Request, in struct {
	Session string `json:"session"`
},
) (none, error) {
	id, err := parseSession(in.Session)
	if err != nil {
		return none{}, err
	}
	return none{}, h.server.ExpireSession(id)
}

// where names an address. Without one the whole server is meant.
type where struct {
	Addr string `json:"addr"`
}

// listener finds the address that is meant, nil for the whole server.
func (h *handler) listener(at where) (*zktest.Listener, error) {
	if at.Addr == "" {
		return nil, nil
	}
	for _, l := range h.listeners {
		if l.Addr() == at.Addr {
			return l, nil
		}
	}
	return nil, fmt.Errorf("unknown address %s", at.Addr)
}

func (h *handler) stop(_ *http.Request, at where) (none, error) {
	l, err := h.listener(at)
	switch {
	case err != nil:
		return none{}, err
	case l != nil:
		l.Stop()
	default:
		h.server.Stop()
	}
	return none{}, nil
}

func (h *handler) restart(_ *http.Request, at where) (none, error) {
	l, err := h.listener(at)
	switch {
	case err != nil:
		return none{}, err
	case l != nil:
		return none{}, l.Restart()
	}
	return none{}, h.server.Restart()
}

func (h *handler) clock(_ *http.Request, in struct {
	Advance string `json:"advance"`
},
) (none, error) {
	d, err := parseDuration("advance", cmp.Or(in.Advance, "missing"))
	if err != nil {
		return none{}, err
	}
	h.server.Advance(d)
	return none{}, nil
}
