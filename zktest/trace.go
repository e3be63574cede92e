package zktest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocurator/curator/internal/proto"
)

// Counts are numbers of requests and bytes.
type Counts struct {
	Requests        map[Op]int // that were applied; handshakes are not among them
	BytesIn         int64
	BytesOut        int64
	WatchEventsSent int
}

// traffic is what four-letter words report.
type traffic struct{ sent int64 }

// Requests returns the counts since the start, or since the last [Server.ResetCounts].
func (s *Server) Requests() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Requests = maps.Clone(c.Requests)
	c.BytesIn = s.bytesIn.Load()
	return c
}

// ResetCounts sets all counts to 0.
func (s *Server) ResetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = Counts{}
	s.bytesIn.Store(0)
}

// count adds a request. s.mu is held.
func (s *Server) count(op Op) {
	if s.counts.Requests == nil {
		s.counts.Requests = make(map[Op]int)
	}
	s.counts.Requests[op]++
}

// Event is one line of a trace: a request with its result, or a watch event.
type Event struct {
	Session int64

	// Of a request. Result is "ok", the path that was made, the children in brackets, or an
	// error in words; it is empty if a fault kept the request from being applied.
	Request Request
	Result  string
	Fault   Fault // that the request met, or 0

	// Of a watch: "created", "deleted", "changed" or "children changed", and where.
	Watch string
	Path  string
}

// String shows the event in one line, such as
// "create /l/n- ephemeral+sequential -> /l/n-0000000001" or "deleted /l/n-0000000000".
func (e Event) String() string {
	if e.Watch != "" {
		return e.Watch + " " + e.Path
	}
	line := e.Request.String()
	if e.Result != "" {
		line += " -> " + e.Result
	}
	if e.Fault != 0 {
		line += fmt.Sprintf(" (%v)", e.Fault)
	}
	return line
}

type trace struct{ f func(Event) }

// Trace calls f with every request when it is answered, and every watch event when it is sent, in order, until
// stop is called. Housekeeping requests (see [Match]) are left out. f is called from one goroutine at a time,
// before the client can see the answer or the event. The server answers nobody meanwhile, but f may call its
// other methods, except Close. A call that began before stop may still run after it.
func (s *Server) Trace(f func(Event)) (stop func()) {
	t := &trace{f}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traces = append(s.traces, t)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.traces = slices.DeleteFunc(slices.Clone(s.traces), func(other *trace) bool { return other == t })
	}
}

// traceEvent puts an event out to the traces. s.mu is held.
func (s *Server) traceEvent(e Event) {
	if len(s.traces) > 0 && !e.Request.Op.housekeeping() {
		s.put(output{kind: outputTrace, from: s, event: e})
	}
}

// describeResult is a request's outcome in words.
func describeResult(op Op, code proto.Code, body proto.Record) string {
	if code != proto.OK {
		return code.String()
	}
	switch b := body.(type) {
	case *proto.CreateResponse:
		return b.Path
	case *proto.PathResponse:
		if op == OpCreate { // or it is a sync
			return b.Path
		}
	case *proto.ChildrenResponse:
		return "[" + strings.Join(b.Names, " ") + "]"
	case *proto.NamesResponse:
		if op == OpGetChildren { // or it is a getEphemerals
			return "[" + strings.Join(b.Names, " ") + "]"
		}
	case *proto.MultiResponse:
		if op == OpMulti { // reads may fail one by one
			return describeMulti(b.Results)
		}
	}
	return proto.OK.String()
}

// describeMulti is the error that made a multi fail, or ok.
func describeMulti(results []proto.MultiResult) string {
	for _, r := range results {
		if r.Code != proto.OK && r.Code != proto.RuntimeInconsistency {
			return r.Code.String()
		}
	}
	return proto.OK.String()
}

type outputKind int

const (
	outputFrame   outputKind = iota
	outputHold               // hold back what comes after, for this connection
	outputRelease            // send what was held back
	outputLast               // nothing comes after: hang up
	outputTrace
)

// output is something on its way to a client, or to the traces.
type output struct {
	kind  outputKind
	to    *conn
	frame []byte
	from  *Server // whose traces, or rewrites, are called
	event Event

	// Of an answer that is rewritten.
	rewrites []*rewrite
	request  Request
}

// put adds an output. There is one order for all of them: a client sees an answer after the
// traces have, and events in the order of transactions. s.mu is held.
func (s *shared) put(o output) { s.outputs = append(s.outputs, o) }

// unlock delivers what was put out while s.mu was held, and unlocks it. Traces are called
// without the lock, so that they may use the server: what that puts out is delivered here too,
// after what is there already, and not by the unlock of whoever put it.
func (s *shared) unlock() {
	if s.settle != nil {
		s.settle()
	}
	if s.delivering {
		s.mu.Unlock()
		return
	}
	s.delivering = true
	defer func() { // also if a trace ends its goroutine, as a failing test does
		s.delivering = false
		s.mu.Unlock()
	}()
	for len(s.outputs) > 0 {
		o := s.outputs[0]
		s.outputs = s.outputs[1:]
		switch {
		case o.kind == outputTrace:
			o.from.callTraces(o.event)
			continue
		case len(o.rewrites) > 0:
			o.frame = o.from.changed(o)
		}
		o.to.deliver(o)
	}
	s.outputs = nil
}

// callTraces unlocks s.mu meanwhile.
func (s *Server) callTraces(e Event) {
	traces := s.traces
	s.mu.Unlock()
	defer s.mu.Lock()
	for _, t := range traces {
		t.f(e)
	}
}

// deliver queues an output for the network, or behind an answer that is held back. Server.mu
// is held.
func (c *conn) deliver(o output) {
	switch o.kind {
	case outputHold:
		c.holding = true
	case outputRelease:
		for _, frame := range c.behind {
			c.out.push(frame)
		}
		c.holding, c.behind = false, nil
	case outputLast:
		c.out.end()
	case outputFrame:
		if len(o.frame) == 0 {
			return // all of it was taken away
		}
		s := c.server
		s.counts.BytesOut += int64(len(o.frame))
		s.traffic.sent++
		c.traffic.sent++
		if c.holding {
			c.behind = append(c.behind, o.frame)
		} else {
			c.out.push(o.frame)
		}
	}
}
