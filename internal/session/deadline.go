package session

import (
	"sync"
	"time"
)

// Deadline computes the earliest instant at which the servers may end our session, and others may acquire what
// it holds. It only does arithmetic on instants that the caller passes: it has no goroutine and no timer, and
// asks the system only whether the machine was suspended.
//
// A server ends a session when it has heard nothing of it for the negotiated timeout. We do not know when it
// heard us, but it heard an answered request no earlier than we sent it. So the session lives at least until
//
//	sent + timeout   of the last request that was answered
//
// provided that the leader answered, since only the leader ends sessions. A follower notes which sessions it
// has heard, and reports them with its answer to the leader's next ping, every half tick. A follower that is
// cut off from the leader still answers pings and reads for some ticks, while the leader hears nothing and ends
// the session.
//
//	request ──> follower              answered by the follower: it has noted us
//	            follower ──> leader   within half a tick: it passes that on
//	request ──> follower ──> leader   answered by the leader: it has what was passed on,
//	                                  since what a follower sends arrives in order
//
// So in strict mode a request counts only when it is proven: a second request was sent at least 9/32 of the
// timeout after the first was answered, the leader took part in the second, and it was answered. By default a
// server grants no timeout shorter than two of its ticks, so 9/32 of it is at least half a tick. The rest
// leaves room for a leader's ping that is late: a sixteenth of a tick, 125 ms by default, with a timeout of two
// ticks, and half a tick and more with four.
//
// The connect request of a new session counts at once, since the leader creates the session. One that goes on with
// a session counts when the leader has answered a later request on the same connection. A follower passes it on to
// the leader, too, but the leader's answer names the session and not the connection. So a follower that has been
// asked before, on a connection that ended meanwhile, may take the answer to the earlier request for one to this,
// which the leader need not have heard.
//
// The price of strict mode: if the leader answers every 3/32 of the timeout, the latest proven request was sent
// no longer ago than
//
//	timeout*3/8 + the longest pause between requests, or timeout/16 if that is more
//
// and two round trips: 15/32 of the timeout if there are no other requests.
//
// # Suspended machines
//
// Go's clock, and so every instant here, stops while the machine is suspended to memory or disk. The servers'
// clocks do not. Linux has a second clock, CLOCK_BOOTTIME, that keeps running. At compares the two at each call,
// Answered now and then. If more time has passed than Go's clock says, the Deadline moves the instants that it knows
// back by the difference, and ignores answers to requests that were sent before. Instants that it was told after the
// machine continued and before it noticed are moved back too, which is too early and so safe. A Deadline acts only
// when it is called, so a holder learns of a loss at the first At after the machine continues. On other systems only
// a server's reply shows that the machine was suspended.
//
// All methods are safe for concurrent use, and none allocates.
type Deadline struct {
	percent time.Duration

	mu      sync.Mutex // guards what follows
	timeout time.Duration
	last    time.Time // sent, of the last request that was answered
	proven  time.Time // sent, of the last request that is proven
	joined  time.Time // sent, of the last connect request that goes on with the session
	samples [samples]sample
	first   int // of the ring
	count   int
	slept   time.Duration // how long the machine had been suspended at the last call
	woke    time.Time     // when it was last noticed that it had been
	looked  time.Time     // when the last answer came at which the system was asked
}

// sample is a request that was answered and may be proven later.
type sample struct{ sent, answered time.Time }

const (
	// forward is the number of 32nds of the timeout after which a follower must have reported what it noted.
	forward = 9

	// spacing: a sample and the next but one are at least this part of the timeout apart. So twice as many
	// samples cover a whole timeout, and older ones are of no use.
	spacing = 16
	samples = 2 * spacing

	// margin is the part of the timeout by which our clock may be slower than theirs.
	margin = 50

	// tolerance is how much the system's clocks may seem to differ because they are not read at the same
	// instant.
	tolerance = 20 * time.Millisecond

	// lookEvery is how often answers make a Deadline ask the system. It costs three system calls, and a client has
	// thousands of answers a second.
	lookEvery = 20 * time.Millisecond
)

// Suspended is how long the machine has been suspended. Tests replace it.
var Suspended = slept

// NewDeadline makes a deadline for a session with the given timeout, whose connect request was sent at sent.
// percent is the part of the timeout after which the session counts as lost, 1 to 100; other values are
// replaced by the nearest of these. Curator calls it simulated session expiration.
func NewDeadline(timeout time.Duration, sent time.Time, percent int) *Deadline {
	return &Deadline{
		percent: time.Duration(min(max(percent, 1), 100)), slept: Suspended(),
		timeout: timeout, last: sent, proven: sent,
	}
}

// Attached notes that a connect request sent at sent, to go on with the session, was answered, with this timeout.
func (d *Deadline) Attached(timeout time.Duration, sent time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timeout = timeout
	if d.wake(); sent.Before(d.woke) {
		return
	}
	// The follower may never have reported what is unproven on the old connection. It need not be removed: it
	// was sent before this request, so it adds nothing to what proves this one.
	d.last, d.joined = later(d.last, sent), sent
}

// Answered notes that a request sent at sent was answered at received, and whether the leader took part in it,
// as in writes and syncs, but not in reads and pings. sent must not be later than the moment at which the first
// byte was sent, nor received earlier than the moment at which the answer was read.
func (d *Deadline) Answered(sent, received time.Time, viaLeader bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if received.Sub(d.looked) >= lookEvery {
		d.looked = received
		d.wake()
	}
	if sent.Before(d.woke) {
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
	more := Suspended() - d.slept
	if more <= tolerance {
		return
	}
	d.slept += more
	d.woke = time.Now()
	d.last, d.proven, d.joined = d.last.Add(-more), d.proven.Add(-more), d.joined.Add(-more)
	d.first, d.count = 0, 0
}

// prove counts the connect request, and all requests that were answered long enough before sent.
func (d *Deadline) prove(sent time.Time) {
	if !sent.Before(d.joined) {
		d.proven = later(d.proven, d.joined)
	}
	for d.count > 0 && sent.Sub(d.at(0).answered) >= d.timeout/32*forward {
		d.proven = later(d.proven, d.at(0).sent)
		d.drop()
	}
}

// keep stores an answered request. It replaces the newest sample if that is close to the one before it, so the
// samples cover the whole timeout.
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

// at returns the i-th oldest sample.
func (d *Deadline) at(i int) *sample { return &d.samples[(d.first+i)%samples] }

// drop forgets the oldest sample.
func (d *Deadline) drop() {
	d.first = (d.first + 1) % samples
	d.count--
}

// At is the instant at which the session counts as lost. strict is for sessions that somebody depends on; the
// strict instant is never later than the other.
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
