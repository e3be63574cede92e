package connstate

import (
	"sync"
	"time"
)

// Deadline knows the earliest instant at which the servers may end our session, and so give
// away what it owns. It is arithmetic on instants that the caller passes: it has no
// goroutine and no timer, and asks the system only whether the machine was suspended.
//
// A server ends a session when it has heard nothing of it for the negotiated timeout. We do
// not see when it heard us; but a request that was answered was heard no earlier than it
// was sent. So the session lives at least until
//
//	sent + timeout   of the last request that was answered
//
// provided that the server that answered is the one that counts. That is the leader. A
// follower notes whom it has heard, and passes that on with its answer to the leader's next
// ping, every half tick. Cut off from the leader, it goes on answering pings and reads
// for some ticks, while the leader, which hears nothing, ends the session.
//
//	request ──> follower              answered by the follower: it has noted us
//	            follower ──> leader   within half a tick: it passes that on
//	request ──> follower ──> leader   answered by the leader: it has what was passed on,
//	                                  since what a follower sends arrives in order
//
// Where it matters (strict), a request therefore counts only when it is proven: when another
// one, which the leader had a hand in, was sent a while after the first was answered,
// and was answered itself. The while is 9/32 of the timeout. A server grants no timeout
// shorter than two of its ticks, unless told otherwise, so that is at least half a tick. What it is
// more than that is room for a ping that is late on its way to the follower: a sixteenth of a
// tick, 125 ms by default, with a timeout of two ticks, and half a tick and more with four.
// A connect request counts at once: the leader makes the session, or confirms it.
//
// The price of being strict: if an answer through the leader comes every 3/32 of the timeout,
// what is proven was sent no longer ago than
//
//	timeout*3/8 + the longest pause between requests, or timeout/16 if that is more
//
// and two round trips: 15/32 of the timeout if there are no other requests.
//
// # Suspended machines
//
// Go's clock, and so every instant here, stands still while the machine is suspended to memory or
// disk; that of the servers does not. Linux has a second clock, CLOCK_BOOTTIME, that goes on. At
// each call a Deadline compares the two. If more time has passed than Go's clock says, it moves the
// instants that it knows back by the difference, and answers to requests that were sent before
// count for nothing. It cannot act while nobody looks: whoever depends on a session learns at the next
// look after the machine went on. On other systems a suspended machine is not noticed before a
// server tells.
//
// All methods are safe for concurrent use, and none allocates.
type Deadline struct {
	percent time.Duration

	mu      sync.Mutex // guards what follows
	timeout time.Duration
	last    time.Time // sent, of the last request that was answered
	proven  time.Time // sent, of the last request that is proven
	samples [samples]sample
	first   int // of the ring
	count   int
	slept   time.Duration // how long the machine had been suspended at the last call
	woke    time.Time     // when it was last noticed that it had been
}

// sample is a request that was answered and may be proven later.
type sample struct{ sent, answered time.Time }

const (
	// forward is after how many 32nds of the timeout a follower must have passed on
	// what it noted.
	forward = 9

	// spacing is the part of the timeout that lies between a sample and the next but one,
	// at least. So twice as many reach back a timeout, and older ones are of no use.
	spacing = 16
	samples = 2 * spacing

	// margin is the part of the timeout by which our clock may be slower than theirs.
	margin = 50

	// tolerance is by how much the system's clocks may seem to differ because they are not read at
	// the same instant.
	tolerance = 20 * time.Millisecond
)

// suspended is how long the machine has been suspended. Tests replace it.
var suspended = slept

// NewDeadline makes a deadline for a session with the given timeout, whose connect request
// was sent at sent. percent is the part of the timeout after which to take it for lost,
// 1 to 100; what is out of range is brought into it. Curator calls it simulated session
// expiration.
func NewDeadline(timeout time.Duration, sent time.Time, percent int) *Deadline {
	d := &Deadline{percent: time.Duration(min(max(percent, 1), 100)), slept: suspended()}
	d.Attached(timeout, sent)
	return d
}

// Attached notes that a connect request sent at sent was answered, with this timeout.
func (d *Deadline) Attached(timeout time.Duration, sent time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timeout = timeout
	if d.wake(); sent.Before(d.woke) {
		return
	}
	// What is still unproven on the old connection may never have been passed on. There is
	// no need to forget it: it was sent before this, and so has nothing to add.
	d.last, d.proven = later(d.last, sent), later(d.proven, sent)
}

// Answered notes that a request sent at sent was answered at received, and whether the
// leader had a hand in it: writes and syncs have it, reads and pings do not. sent must
// not be later than the first byte left, nor received earlier than the answer was read.
func (d *Deadline) Answered(sent, received time.Time, viaLeader bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wake(); sent.Before(d.woke) {
		return
	}
	d.last = later(d.last, sent)
	if viaLeader {
		d.prove(sent)
	}
	d.keep(sample{sent, received})
}

// wake notices that the machine was suspended.
func (d *Deadline) wake() {
	more := suspended() - d.slept
	if more <= tolerance {
		return
	}
	d.slept += more
	d.woke = time.Now()
	d.last, d.proven = d.last.Add(-more), d.proven.Add(-more)
	d.first, d.count = 0, 0
}

// prove counts all requests that were answered long enough before sent.
func (d *Deadline) prove(sent time.Time) {
	for d.count > 0 && sent.Sub(d.at(0).answered) >= d.timeout/32*forward {
		d.proven = later(d.proven, d.at(0).sent)
		d.drop()
	}
}

// keep remembers an answered request. A newest sample that is close to the one before
// is replaced, so that what is kept is never further apart than it must be.
func (d *Deadline) keep(s sample) {
	if d.count > 0 && !s.sent.After(d.at(d.count-1).sent) {
		return // overtaken by a later one
	}
	if d.count > 1 && s.sent.Sub(d.at(d.count-2).sent) < d.timeout/spacing {
		*d.at(d.count - 1) = s
		return
	}
	if d.count == samples {
		d.drop()
	}
	*d.at(d.count) = s
	d.count++
}

// at is the i-th oldest sample's place.
func (d *Deadline) at(i int) *sample { return &d.samples[(d.first+i)%samples] }

// drop forgets the oldest sample.
func (d *Deadline) drop() {
	d.first = (d.first + 1) % samples
	d.count--
}

// At is the instant at which the session must be taken for lost. Strict is for when somebody
// depends on it; it is never later than the other.
func (d *Deadline) At(strict bool) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wake()
	heard := d.last
	if strict {
		heard = d.proven
	}
	return heard.Add((d.timeout - d.timeout/margin) / 100 * d.percent)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
