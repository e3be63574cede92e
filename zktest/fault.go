package zktest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Fault is a way in which a request fails.
type Fault int

const (
	// FailBefore cuts the connection instead of applying the request.
	FailBefore Fault = iota + 1

	// LoseReply applies the request and cuts the connection instead of answering.
	LoseReply

	// ExpireBefore ends the session instead of applying the request.
	ExpireBefore

	// ExpireAfter applies the request and ends the session instead of answering.
	ExpireAfter

	// LoseWakeup applies the request and withholds the answer, and all that follows on the connection, until the
	// server receives another request, of whatever client: a handshake or a ping will do. ZooKeeper 3.6.0 to 3.8.0
	// does that now and then (ZOOKEEPER-4537). A real server also
	// goes on when the ensemble commits a write of another client; this one does not.
	LoseWakeup
)

// String is the fault in words, such as "lose reply".
func (f Fault) String() string {
	switch f {
	case FailBefore:
		return "fail before"
	case LoseReply:
		return "lose reply"
	case ExpireBefore:
		return "expire before"
	case ExpireAfter:
		return "expire after"
	case LoseWakeup:
		return "lose wake-up"
	}
	return fmt.Sprintf("fault %d", int(f))
}

// Match selects requests. It is called without a lock, from several goroutines at a time.
//
// Housekeeping requests are those that clients send by themselves: handshakes, pings, authentication,
// setWatches and the end of a session. Their number depends on time, so the nth request would not be the same
// each time if they counted. They are selected only if an [OnOp] names them.
type Match func(Request) bool

// OnOp matches requests of these kinds.
func OnOp(ops ...Op) Match {
	return func(r Request) bool {
		picked := slices.Contains(ops, r.Op)
		if picked && r.named != nil {
			*r.named = true
		}
		return picked
	}
}

// OnCreate matches all requests that create a node of any kind, but not a multi.
func OnCreate() Match { return func(r Request) bool { return r.Op.creates() } }

// OnPath matches requests on paths that begin with prefix, and multis that contain such a request.
func OnPath(prefix string) Match {
	return func(r Request) bool {
		return strings.HasPrefix(r.Path, prefix) || slices.ContainsFunc(r.Parts, func(part Request) bool {
			return strings.HasPrefix(part.Path, prefix)
		})
	}
}

// OnSession matches requests of one session.
func OnSession(id int64) Match {
	return func(r Request) bool { return r.Session == id }
}

// All matches requests that all of matches select. Without matches it selects every request.
func All(matches ...Match) Match {
	return func(r Request) bool {
		for _, m := range matches {
			if !m(r) {
				return false
			}
		}
		return true
	}
}

// picks reports whether m picks r, and may.
func (m Match) picks(r Request) bool {
	named := !r.Op.housekeeping()
	r.named = &named
	return m(r) && named
}

// Inject applies a fault to the nth request from now, counted from 0 among those that all matches select. It
// happens once. A request meets at most one fault, the one that was injected first, and does not count for
// later ones.
func (s *Server) Inject(f Fault, n int, matches ...Match) *Injection {
	i := &Injection{fault: f, left: n, match: All(matches...), met: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.injections = append(s.injections, i)
	return i
}

// Injection is a fault for one request. All methods are safe for concurrent use.
type Injection struct {
	fault   Fault
	match   Match
	left    int // guarded by Server.mu
	met     chan struct{}
	request Request // set before met is closed
}

// Met reports whether a request has met the fault.
func (i *Injection) Met() bool {
	select {
	case <-i.met:
		return true
	default:
		return false
	}
}

// Done is closed when a request has met the fault.
func (i *Injection) Done() <-chan struct{} { return i.met }

// String returns the fault and the request that met it, such as "lose reply: create /a".
func (i *Injection) String() string {
	if i.Met() {
		return i.fault.String() + ": " + i.request.String()
	}
	return i.fault.String() + ": not met"
}

// hits lists the injections that wait for requests such as r, in order.
func (s *Server) hits(r Request) []*Injection {
	s.mu.Lock()
	pending := slices.Clone(s.injections)
	s.mu.Unlock()
	return slices.DeleteFunc(pending, func(i *Injection) bool { return !i.match.picks(r) })
}

// meet counts r for those injections, and returns the fault that it meets, or 0. s.mu is
// held.
func (s *Server) meet(hits []*Injection, r Request) Fault {
	for _, i := range hits {
		switch {
		case i.Met(): // by another request meanwhile
		case i.left > 0:
			i.left--
		default:
			i.request = r
			close(i.met)
			s.injections = slices.DeleteFunc(s.injections, func(other *Injection) bool { return other == i })
			return i.fault
		}
	}
	return 0
}

// answers reports whether a request that meets the fault is answered on its connection.
func (f Fault) answers() bool { return f == 0 || f == LoseWakeup }

// asleep are the gates of answers that wait for the next request.
type asleep struct {
	mu    sync.Mutex // guards what follows
	gates []*Gate
}

// holdUp adds a gate to those of a request, if its fault is LoseWakeup.
func (a *asleep) holdUp(f Fault, gates []*Gate) []*Gate {
	if f != LoseWakeup {
		return gates
	}
	g := &Gate{arrived: make(chan struct{}), opened: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gates = append(a.gates, g)
	return append(gates, g)
}

// wake lets them go.
func (a *asleep) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.gates {
		close(g.opened)
	}
	a.gates = nil
}
