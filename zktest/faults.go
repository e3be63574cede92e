package zktest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/internal/timeline"
	"github.com/gocurator/curator/zktest/internal/tree"
	"github.com/gocurator/curator/zktest/internal/wire"
)

// faults are the faults of requests, and the traces, of one server. Each list is in the order in
// which its elements were added, and is replaced, not changed. It is the [wire.Hooks] of the
// server.
type faults struct {
	core   *wire.Server // its lock guards the lists
	asleep asleep

	timeline  *timeline.Recorder // nil without one
	addresses func() []string    // describes the frozen addresses
	partition string             // the partition in words, or ""

	injections []*Injection
	gates      []*Gate
	delays     []*delay
	rewrites   []*rewrite
	traces     []*trace
}

type delay struct {
	by    time.Duration
	match Match
}

func (d *delay) String() string { return d.match.fault(fmt.Sprintf("delay by %v", d.by)) }

type rewrite struct {
	match Match
	f     func(Request, []byte) []byte
}

func (w *rewrite) String() string { return w.match.fault("rewrite answers") }

type trace struct{ f func(Event) }

// add adds an element to a list of f, and returns the function that removes it.
func add[E any](f *faults, list *[]*E, e *E) (remove func()) {
	f.core.Lock()
	defer f.core.Unlock()
	*list = append(slices.Clip(*list), e)
	f.sample()
	return func() {
		f.core.Lock()
		defer f.core.Unlock()
		*list = without(*list, e)
		f.sample()
	}
}

// without returns a list without an element.
func without[E any](list []*E, e *E) []*E {
	return slices.DeleteFunc(slices.Clone(list), func(other *E) bool { return other == e })
}

// picked returns the elements whose match picks a request. The lock is not held.
func picked[E any](list []*E, r Request, match func(*E) Match) []*E {
	return slices.DeleteFunc(slices.Clone(list), func(e *E) bool { return !match(e).picks(r) })
}

// closedTo returns the gates that hold a request up, or its answer. The lock is not held.
func closedTo(r Request, gates []*Gate, replies bool) []*Gate {
	return slices.DeleteFunc(slices.Clone(gates), func(g *Gate) bool { return g.replies != replies || !g.match.picks(r) })
}

// wait blocks a request until all gates are open. It reports false if the server is closed
// before.
func (f *faults) wait(gates []*Gate, r Request) bool {
	for _, g := range gates {
		if !g.wait(r, f.core.Done()) {
			return false
		}
	}
	return true
}

// Received lets the answers go that LoseWakeup withholds.
func (f *faults) Received() { f.asleep.wake() }

// Pass waits at the gates that block a request, and for its delays.
func (f *faults) Pass(r wire.Request) bool {
	gates, delays := f.holding()
	if len(gates) == 0 && len(delays) == 0 {
		return true
	}
	request := describe(r.Session, r.Op, r.Body)
	if !f.wait(closedTo(request, gates, false), request) {
		return false
	}
	_, delays = f.holding() // it may have waited
	by := time.Duration(0)
	for _, d := range picked(delays, request, func(d *delay) Match { return d.match }) {
		by += d.by
	}
	return by <= 0 || f.sleep(by)
}

func (f *faults) holding() ([]*Gate, []*delay) {
	f.core.Lock()
	defer f.core.Unlock()
	return f.gates, f.delays
}

// sleep reports false if the server is closed before the time has passed.
func (f *faults) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.core.Done():
		return false
	}
}

// Plan finds the faults that a request may meet.
func (f *faults) Plan(r wire.Request) func() wire.Fate {
	f.core.Lock()
	injections, gates, rewrites := f.injections, f.gates, f.rewrites
	f.core.Unlock()
	if len(injections) == 0 && len(gates) == 0 && len(rewrites) == 0 {
		return nil
	}
	request := describe(r.Session, r.Op, r.Body)
	injections = picked(injections, request, func(i *Injection) Match { return i.match })
	gates = closedTo(request, gates, true)
	rewrites = picked(rewrites, request, func(w *rewrite) Match { return w.match })
	return func() wire.Fate {
		fault := f.meet(injections, request)
		fate := fates[fault]
		fate.Fault = int(fault)
		if fault == LoseWakeup {
			gates = append(gates, f.asleep.hold())
		}
		if len(gates) > 0 {
			fate.Hold = func() bool { return f.wait(gates, request) }
		}
		if len(rewrites) > 0 {
			fate.Rewrite = func(answer []byte) []byte {
				for _, w := range rewrites {
					answer = w.f(request, answer)
				}
				return answer
			}
		}
		return fate
	}
}

// meet counts a request for injections, and returns the fault that it meets, or 0. The lock is
// held.
func (f *faults) meet(injections []*Injection, r Request) Fault {
	for _, i := range injections {
		switch {
		case i.Met(): // another request has met it since Plan
		case i.left > 0:
			i.left--
		default:
			i.request = r
			close(i.met)
			f.injections = without(f.injections, i)
			f.sample()
			return i.fault
		}
	}
	return 0
}

// Answered traces a request. The lock is held.
func (f *faults) Answered(r wire.Request, fate wire.Fate, result func() string) {
	if len(f.traces) == 0 || slices.Contains(housekeeping, r.Op) {
		return
	}
	e := Event{Session: r.Session, Request: describe(r.Session, r.Op, r.Body), Fault: Fault(fate.Fault)}
	if result != nil {
		e.Result = result()
	}
	f.core.Put(&traced{f, e})
}

// Describe returns the operation and the path of a request as a trace shows them.
func (f *faults) Describe(r wire.Request) (what, path string) {
	q := describe(r.Session, r.Op, r.Body)
	if len(q.Parts) > 0 {
		return q.String(), q.Path
	}
	path, q.Path = q.Path, ""
	return q.String(), path
}

// Name returns the name of a fault.
func (f *faults) Name(fault int) string { return Fault(fault).String() }

// Notified traces the event of a watch. The lock is held.
func (f *faults) Notified(session int64, e tree.EventType, path string) {
	if len(f.traces) > 0 {
		f.core.Put(&traced{f, Event{Session: session, Watch: e.String(), Path: path}})
	}
}

// traced is an event on its way to the traces.
type traced struct {
	faults *faults
	event  Event
}

// Deliver calls the traces without the lock.
func (t *traced) Deliver() {
	traces := t.faults.traces
	t.faults.core.Outside(func() {
		for _, to := range traces {
			to.f(t.event)
		}
	})
}

// clear ends all faults of requests. The lock is not held.
func (f *faults) clear() {
	f.core.Lock()
	gates := f.gates
	f.injections, f.gates, f.delays, f.rewrites = nil, nil, nil, nil
	f.sample()
	f.core.Unlock()
	for _, g := range gates {
		g.Open()
	}
	f.asleep.wake()
}

// list returns the faults of requests in words. The lock is held.
func (f *faults) list() []string {
	list := []string{}
	for _, i := range f.injections {
		list = append(list, i.String())
	}
	for _, g := range f.gates {
		list = append(list, g.String())
	}
	for _, d := range f.delays {
		list = append(list, d.String())
	}
	for _, w := range f.rewrites {
		list = append(list, w.String())
	}
	return list
}

// asleep holds the answers that wait for the next request. It has a separate lock.
type asleep struct {
	mu    sync.Mutex // guards what follows
	gates []*Gate
}

// hold returns a gate that the next request opens.
func (a *asleep) hold() *Gate {
	g := newGate()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gates = append(a.gates, g)
	return g
}

// wake opens the gates.
func (a *asleep) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.gates {
		g.Open()
	}
	a.gates = nil
}
