package session

import (
	"sync"
	"time"
)

// Deadline computes the earliest instant at which the servers may expire the session, so that
// another client may acquire what it holds. It does arithmetic on instants that the caller passes:
// it has no goroutine and no timer, and only asks the system whether the machine was suspended.
//
// A server expires a session when it has heard nothing of it for the negotiated timeout. The client
// does not know when the server heard it, but the server heard an answered request no earlier than
// the client sent it. So the session lives at least until
//
//	sent + timeout   of the last request that was answered
//
// provided that the leader has heard it, since only the leader expires sessions, and that it was
// still the leader then. Three replies do not prove that:
//
//   - A follower records which sessions it has heard, and reports them with its answer to the
//     leader's next ping, every half tick. It records nothing for credentials, whose replies are
//     not passed to Answered.
//   - A follower that is cut off from the leader still answers pings and reads for some ticks.
//   - A leader that its followers have replaced does so too. It also answers syncs, and grants a
//     session that a client resumes.
//
// None of them answers a write: a write is answered when a majority has committed it.
//
//	request ──> follower                answered by the follower, which has recorded the session
//	            follower ──> leader     within half a tick: the follower reports it
//	write   ──> follower ──> leader     the report was ahead of it, and has arrived
//	                         leader ──> majority   no other leader had replaced this one
//
// So in strict mode a request counts only when it is proven: a write was sent at least 9/32 of the
// timeout after the request was answered, and was committed. By default a server grants no timeout
// shorter than two of its ticks, so 9/32 of it is at least half a tick. The rest is room for a
// leader's ping that is late: a sixteenth of a tick, 125 ms by default, with a timeout of two
// ticks, and half a tick and more with four.
//
// A new leader gives each session its whole timeout from when it begins. One of the majority that
// acknowledged the write must follow the new leader, and does so after the acknowledgement. So the
// new leader begins after the write was sent.
//
// The argument requires pings in time. If the network between follower and leader has stalled, a
// write may reach the leader before the report, just before the leader expires the session. While
// the last proof holds, that cannot happen: the leader has heard the session. After that, when no
// function depended on the session, one write is not enough. Its reply follows the leader's earlier
// pings, so the follower has answered those, and a write that is sent after that reply follows the
// report. So a second write, sent when the first was answered, proves the requests that were
// answered at least 9/32 of the timeout before the first one was sent.
//
// The connect request of a new session counts at once, since a majority has committed the new
// session. A connect request that resumes a session counts when a later write on the same
// connection was committed.
//
// The price of strict mode: a write that is sent 9/32 of the timeout after the previous one was
// answered proves that one. If writes follow each other at that interval (see Provable), the latest
// proven request was sent no longer ago than
//
//	timeout*5/8 + three round trips
//
// which is 9/32 twice, and the spacing of the samples. So a round trip must be shorter than 11.8 %
// of the timeout: see [LongestRoundTrip].
//
// # Suspended machines
//
// Go's clock, and so every instant here, stops while the machine is suspended to memory or disk.
// The servers' clocks do not. Linux has a second clock, CLOCK_BOOTTIME, that continues. At compares
// the two at each call, Answered at intervals. If more time has passed than Go's clock says, the
// Deadline moves its instants back by the difference, and ignores replies to requests that were
// sent before. Instants that were recorded between the resume and its detection are moved back too,
// which is too early and so safe. A Deadline acts only when it is called, so a holder notices a
// loss at the first At after the resume. On other systems only a server's reply shows that the
// machine was suspended.
//
// All methods are safe for concurrent use, and none allocates.
type Deadline struct {
	percent time.Duration

	mu      sync.Mutex // guards the fields below
	timeout time.Duration
	last    time.Time // when the last answered request was sent
	proven  time.Time // when the last proven request was sent
	again   sample    // the first write of a proof of two, or zero
	samples [samples]sample
	first   int // the first element of the ring
	count   int
	slept   time.Duration // how long the machine had been suspended at the last call
	woke    time.Time     // when a suspension was last noticed
	looked  time.Time     // when Answered last asked the system
}

// sample is a request that was answered and may be proven later.
type sample struct{ sent, answered time.Time }

const (
	// forward is the number of 32nds of the timeout after which a follower must have reported the
	// sessions that it recorded.
	forward = 9

	// spacing: a sample and the next but one are at least this part of the timeout apart. So twice
	// as many samples cover a whole timeout. Older samples are useless.
	spacing = 16
	samples = 2 * spacing

	// margin is the part of the timeout by which the client's clock may be slower than the
	// servers'.
	margin = 50

	// tolerance is the largest difference between the system's clocks that is attributed to reading
	// them one after the other.
	tolerance = 20 * time.Millisecond

	// lookEvery is the interval at which replies cause a Deadline to ask the system. That costs
	// three system calls, and a client receives thousands of replies a second.
	lookEvery = 20 * time.Millisecond
)

// LongestRoundTrip returns the longest duration of a committed write that keeps a session alive in
// strict mode: a third of the timeout that is left without the margin and the 5/8. If writes take
// longer, the session is lost although every request is answered.
func LongestRoundTrip(timeout time.Duration) time.Duration {
	return (timeout - timeout/margin - timeout*(2*forward+32/spacing)/32) / 3
}

// Suspended returns how long the machine has been suspended. Tests replace it.
var Suspended = slept

// NewDeadline returns a deadline for a session with the given timeout, whose connect request was
// sent at sent. percent, 1 to 100, is the part of the timeout after which the session counts as
// lost; the nearest valid value replaces others. Curator calls it simulated session expiration.
func NewDeadline(timeout time.Duration, sent time.Time, percent int) *Deadline {
	return &Deadline{
		percent: time.Duration(min(max(percent, 1), 100)), slept: Suspended(),
		timeout: timeout, last: sent, proven: sent,
	}
}

// Attached records that the server has answered a connect request that resumes the session. It was
// sent at sent, and the server granted timeout.
func (d *Deadline) Attached(timeout time.Duration, sent time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timeout = timeout
	if d.wake(); sent.Before(d.woke) {
		return
	}
	// What is unproven on the old connection was sent before this request, so it adds nothing. Any
	// later write proves this request, as if it had been answered long ago.
	d.last = later(d.last, sent)
	d.first, d.count = 0, 0
	d.keep(sample{sent, sent.Add(-d.ripe())})
}

// Answered records that a request was answered. committed reports whether it was a write that the
// ensemble has committed. sent must not be later than the moment at which the first byte was sent,
// and received not earlier than the moment at which the reply was read.
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

// prove counts all requests that were answered long enough before a write was sent, or before the
// first write of a proof of two.
func (d *Deadline) prove(write sample) {
	since := write.sent
	if !write.answered.Before(d.over(d.proven)) { // the last proof has expired
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

// over returns when the servers may expire a session that they heard last at heard, by this clock.
func (d *Deadline) over(heard time.Time) time.Time { return heard.Add(d.timeout - d.timeout/margin) }

// keep stores an answered request. It replaces the newest sample if that is close to the one before
// it, so the samples cover the whole timeout.
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

// ripe is the minimum time between a reply and a write that proves its request.
func (d *Deadline) ripe() time.Duration { return d.timeout / 32 * forward }

// at returns the i-th oldest sample.
func (d *Deadline) at(i int) *sample { return &d.samples[(d.first+i)%samples] }

// drop forgets the oldest sample.
func (d *Deadline) drop() {
	d.first = (d.first + 1) % samples
	d.count--
}

// At returns the instant at which the session counts as lost. strict is for a session on which a
// function depends. The strict instant is never later than the other.
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

// Provable returns the earliest time at which a write would prove a request that was sent at the
// time from or later. If no such request has been answered, it assumes one that was sent and
// answered at that time. A connect request that was sent at from itself does not count: a write of
// that time proves it already.
func (d *Deadline) Provable(from time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.count {
		if s := d.at(i); s.sent.After(from) || s.sent.Equal(from) && !s.answered.Before(from) {
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
