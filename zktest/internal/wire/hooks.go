package wire

import (
	"strings"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// Request is a client's decoded request.
type Request struct {
	Session   int64
	Op        proto.Op
	Body      proto.Record // nil if the operation is unknown
	Malformed bool         // Body contains only the decoded part
}

// decode reads a request after its header.
func decode(session int64, op proto.Op, d *proto.Decoder) Request {
	body := proto.NewRequest(op)
	if body != nil {
		body.Decode(d)
		tree.ReadAsJava(body)
	}
	return Request{Session: session, Op: op, Body: body, Malformed: d.Err() != nil}
}

// understood returns the body of a request, or nil if it is malformed.
func (r Request) understood() proto.Record {
	if r.Malformed {
		return nil
	}
	return r.Body
}

// Hooks are a test's faults and observers, which the server calls for each request.
type Hooks interface {
	// Received is called when a request has arrived. The lock is not held.
	Received()
	// Pass waits while the request is held up. It reports false if the server is closed. The lock
	// is not held.
	Pass(r Request) bool
	// Plan returns the function that chooses the fate of a request, or nil if nothing is planned.
	// The function is called with the lock held, Plan without it.
	Plan(r Request) func() Fate
	// Answered is called when a request is answered or meets a fault. A nil result means that it
	// was not applied.
	Answered(r Request, f Fate, result func() string)
	// Describe returns a request's operation and path in words, and Name a fault's name.
	Describe(r Request) (what, path string)
	Name(fault int) string
	// Notified is called when the event of a watch is sent.
	Notified(session int64, e tree.EventType, path string)
}

// Fate is the fault that a test applies to a request. The zero value applies none.
type Fate struct {
	Fault   int                 // number that the hooks assigned; 0 without a fault
	Skip    bool                // do not apply the request
	Expire  bool                // expire the session, after the request if it is applied
	Mute    bool                // cut the connection instead of sending a reply
	Hold    func() bool         // waits until the reply may be sent; false if the server is closed
	Rewrite func([]byte) []byte // replaces the reply; called without the lock
}

// free reports whether nothing delays the answer or prevents it.
func (f Fate) free() bool { return f.Fault == 0 && f.Hold == nil }

// outcome is the result of a request in words.
func outcome(op proto.Op, code proto.Code, body proto.Record) string {
	if code != proto.OK {
		return code.String()
	}
	switch b := body.(type) {
	case *proto.CreateResponse:
		return b.Path
	case *proto.PathResponse:
		if op == proto.OpCreate { // or it is a sync
			return b.Path
		}
	case *proto.ChildrenResponse:
		return "[" + strings.Join(b.Names, " ") + "]"
	case *proto.NamesResponse:
		if op == proto.OpGetChildren { // or it is a getEphemerals
			return "[" + strings.Join(b.Names, " ") + "]"
		}
	case *proto.MultiResponse:
		if op == proto.OpMulti { // reads may fail one by one
			return multiOutcome(b.Results)
		}
	}
	return proto.OK.String()
}

// multiOutcome is the error of a multi, or ok.
func multiOutcome(results []proto.MultiResult) string {
	for _, r := range results {
		if r.Code != proto.OK && r.Code != proto.RuntimeInconsistency {
			return r.Code.String()
		}
	}
	return proto.OK.String()
}
