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
// provided that the leader has heard it, since only the leader ends sessions, and that it still was the leader then.
// A follower notes which sessions it has heard, and reports them with its answer to the leader's next ping, every half
// tick. It notes nothing when it is given credentials, whose answers are not for Answered. A follower that is cut off from
// the leader still answers pings and reads for some ticks. So does a leader that
// its followers have replaced, which also answers syncs and grants a session that a client goes on with. It answers no
// write: a write is answered when a majority has committed it.
//
//	request ──> follower                answered by the follower: it has noted us
//	            follower ──> leader     within half a tick: it passes that on
//	write   ──> follower ──> leader     the leader has what was passed on, since what a follower sends arrives in order
//	                         leader ──> majority   they have acknowledged the write: nobody had replaced the leader
//
// So in strict mode a request counts only when it is proven: a write was sent at least 9/32 of the timeout after the
// request was answered, and was committed. By default a server grants no timeout shorter than two of its ticks, so 9/32
// of it is at least half a tick. The rest leaves room for a leader's ping that is late: a sixteenth of a tick, 125 ms by
// default, with a timeout of two ticks, and half a tick and more with four.
//
// A leader that comes later gives each session its whole timeout from when it begins. One of the majority that
// acknowledged the write has to follow it, and did so after that. So it begins after the write was sent.
//
// That rests on pings that are in time. If the network between follower and leader stood still for long, a write may reach the leader
// before what was passed on, and the leader may be about to end the session meanwhile. As long as the last proof holds it is not: it
// has heard us then. After that, when nobody depended on the session, one write is not enough. Its answer comes behind the pings that
// the leader has sent before, so the follower has answered them, and a write that is sent after that answer is behind what was passed
// on. So a second write, sent when the first was answered, proves what was answered at least 9/32 of the timeout before the first one
// was sent.
//
// The connect request of a new session counts at once, since a majority has committed the new session. One that goes on
// with a session counts when a later write on the same connection was committed.
//
// The price of strict mode: a write that is sent 9/32 of the timeout after the last one was answered proves that one. If
// writes follow each other so, see Provable, the latest proven request was sent no longer ago than
//
//	timeout*5/8 + three round trips
//
// which is 9/32 twice, and the spacing of the requests that are remembered.
//
// # Suspended machines
//
// Go's clock, and so every instant here, stops while the machine is suspended to memory or disk. The servers'
// clocks do not. Linux has a second clock, CLOCK_BOOTTIME, that keeps running. At compares the two at each call,
// Answered now and then. If more time has passed than Go's clock says, the Deadline moves the instants that it knows
// back by the difference, and ignores answers to requests that were sent before. Instants that it was given after the
// machine continued and before it noticed are moved back too, which is too early and so safe. A Deadline acts only
// when it is called, so a holder notices a loss at the first At after the machine continues. On other systems only
// a server's reply shows that the machine was suspended.
//
// All methods are safe for concurrent use, and none allocates.
type Deadline struct {
	percent time.Duration

	mu      sync.Mutex // guards what follows
	timeout time.Duration
	last    time.Time // sent, of the last request that was answered
	proven  time.Time // sent, of the last request that is proven
	again   sample    // the write that begins a proof after a time without one, or zero
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
	// What is unproven on the old connection was sent before this request, so it adds nothing. Any later write proves
	// this request, as if it had been answered long ago.
	d.last = later(d.last, sent)
	d.first, d.count = 0, 0
	d.keep(sample{sent, sent.Add(-d.ripe())})
}

// Answered notes that a request sent at sent was answered at received, and whether it was a write that the ensemble has
// committed. sent must not be later than the moment at which the first byte was sent, nor received earlier than the
// moment at which the answer was read.
func (d *Deadline) Answered(sent, received time.Time, committed bool) {
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
	if committed {
		d.prove(sample{sent, received})
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
	d.last, d.proven = d.last.Add(-more), d.proven.Add(-more)
	d.first, d.count = 0, 0
}

// prove counts all requests that were answered long enough before a write was sent, or before the one that began the proof.
func (d *Deadline) prove(write sample) {
	since := write.sent
	if !write.answered.Before(d.over(d.proven)) { // nothing was proven for long
		if write.sent.Before(d.again.answered) {
			return
		}
		since = d.again.sent
		d.again = write
	}
	for d.count > 0 && since.Sub(d.at(0).answered) >= d.ripe() {
		d.proven = later(d.proven, d.at(0).sent)
		d.drop()
	}
}

// over is when the servers may end the session if they have heard nothing since then, by our clock.
func (d *Deadline) over(heard time.Time) time.Time { return heard.Add(d.timeout - d.timeout/margin) }

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

// ripe is for how long a request must have been answered before a write that proves it.
func (d *Deadline) ripe() time.Duration { return d.timeout / 32 * forward }

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

// Provable returns the earliest instant at which a write can be sent to prove a request that was sent at from or later. If
// none was answered yet, that is when it would prove one that was sent and answered at from.
func (d *Deadline) Provable(from time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.count {
		if s := d.at(i); !s.sent.Before(from) {
			return s.answered.Add(d.ripe())
		}
	}
	return from.Add(d.ripe())
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
