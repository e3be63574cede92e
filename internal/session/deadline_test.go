package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/internal/session"
)

var zero = time.Unix(1_000_000, 0)

func at(d time.Duration) time.Time { return zero.Add(d) }

const timeout = 10 * time.Second

func TestDeadlineCountsFromWhenTheRequestWasSent(t *testing.T) {
	d := session.NewDeadline(timeout, zero, 100)
	attached := d.At(false)
	require.Equal(t, at(9800*time.Millisecond), attached, "less a margin for the clocks")
	require.Equal(t, attached, d.At(true), "a connect request counts at once")

	d.Answered(at(time.Second), at(5*time.Second), false)
	require.Equal(t, attached.Add(time.Second), d.At(false), "not from when the answer came")
}

func TestStrictDeadlineCountsWhatAWriteHasProven(t *testing.T) {
	d := session.NewDeadline(timeout, zero, 100)
	attached := d.At(true)
	for s := time.Second; s < 9*time.Second; s += time.Second {
		d.Answered(at(s), at(s), false)
	}
	require.Equal(t, attached, d.At(true), "pings prove nothing")
	require.Equal(t, attached.Add(8*time.Second), d.At(false))

	d.Answered(at(9*time.Second), at(9*time.Second), true)
	require.Equal(t, attached.Add(6*time.Second), d.At(true), "the last one that is 2.5 s older than the proof")
}

func TestStrictDeadlineAfterALongIdleTime(t *testing.T) {
	d := session.NewDeadline(timeout, zero, 100)
	for s := time.Duration(0); s < time.Hour; s += timeout / 3 {
		d.Answered(at(s), at(s), false)
	}
	write := func(sent, answered time.Duration) { d.Answered(at(time.Hour+sent), at(time.Hour+answered), true) }
	write(0, 2*time.Millisecond)
	require.False(t, d.At(true).After(at(time.Hour)), "the session may be about to end")
	write(time.Millisecond, 3*time.Millisecond)
	require.False(t, d.At(true).After(at(time.Hour)), "it may have reached the leader before the answer to the first one left")
	write(2*time.Millisecond, 4*time.Millisecond)
	require.True(t, d.At(true).After(at(time.Hour)), "whoever acquires now has time left")
	write(4*time.Millisecond, 5*time.Millisecond)
	require.True(t, d.At(true).After(at(time.Hour)))
}

// TestStrictDeadlineAfterManyRequests: it remembers a limited number of them, the newest.
func TestStrictDeadlineAfterManyRequests(t *testing.T) {
	d := session.NewDeadline(timeout, zero, 100)
	sent := at(0)
	for ; sent.Before(at(3 * timeout)); sent = sent.Add(timeout / 64) {
		d.Answered(sent, sent, false)
	}
	d.Answered(sent, sent, true)
	d.Answered(sent, sent, true)
	ripe := sent.Add(-timeout * 9 / 32)
	require.WithinRange(t, d.At(true), ripe.Add(-timeout/16+timeout*98/100), ripe.Add(timeout*98/100), "a request of not long before is proven")
}

func TestReconnectConfirmsTheSession(t *testing.T) {
	d := session.NewDeadline(timeout, zero, 100)
	d.Answered(at(time.Second), at(time.Second), false)
	d.Attached(2*timeout, at(5*time.Second))
	require.Equal(t, at(5*time.Second+19600*time.Millisecond), d.At(false))
	require.Equal(t, at(19600*time.Millisecond), d.At(true), "the answer may be that to an earlier connect request")
	d.Answered(at(4*time.Second), at(6*time.Second), true)
	d.Answered(at(6*time.Second), at(6*time.Second), false)
	require.Equal(t, at(19600*time.Millisecond), d.At(true), "only a later write proves it")
	d.Answered(at(6*time.Second), at(6*time.Second), true)
	require.Equal(t, at(5*time.Second+19600*time.Millisecond), d.At(true), "what the old server noted is not proven by the new one")
}

func TestPercentShortensTheDeadline(t *testing.T) { // CUR-CST-05
	require.Equal(t, at(2940*time.Millisecond), session.NewDeadline(timeout, zero, 30).At(false))
	require.Equal(t, session.NewDeadline(timeout, zero, 1).At(true), session.NewDeadline(timeout, zero, -5).At(true))
	require.Equal(t, session.NewDeadline(timeout, zero, 100).At(true), session.NewDeadline(timeout, zero, 1000).At(true))
}

func TestWhatTheOldConnectionAnswersLateIsNotProvenByTheNewOne(t *testing.T) {
	d := session.NewDeadline(timeout, zero, 100)
	d.Attached(timeout, at(2*time.Second))
	d.Answered(at(time.Second), at(3*time.Second), false) // sent before the connect request
	d.Answered(at(9*time.Second), at(9*time.Second), true)
	require.Equal(t, at(2*time.Second+9800*time.Millisecond), d.At(true), "the connect request")
}

func TestAnswerThatWasOvertakenChangesNothing(t *testing.T) {
	d := session.NewDeadline(timeout, zero, 100)
	attached := d.At(true)
	d.Answered(at(3800*time.Millisecond), at(4*time.Second), false)
	d.Answered(at(4000*time.Millisecond), at(4*time.Second), false)
	d.Answered(at(3900*time.Millisecond), at(6*time.Second), false)
	d.Answered(at(7*time.Second), at(7*time.Second), true)
	require.Equal(t, attached.Add(4*time.Second), d.At(true))
	require.Equal(t, attached.Add(7*time.Second), d.At(false))
}

func TestDeadlineTakesAnyNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) })
		instant := rapid.Map(duration, at)
		d := session.NewDeadline(duration.Draw(t, "timeout"), instant.Draw(t, "sent"), rapid.Int().Draw(t, "percent"))
		for range rapid.IntRange(0, 50).Draw(t, "answers") {
			d.Answered(instant.Draw(t, "sent"), instant.Draw(t, "received"), rapid.Bool().Draw(t, "write"))
			if rapid.IntRange(0, 9).Draw(t, "attach") == 0 {
				d.Attached(duration.Draw(t, "timeout"), instant.Draw(t, "sent"))
			}
			if d.At(true).After(d.At(false)) {
				t.Fatal("strict is later than the other")
			}
		}
	})
}

// ensemble is a follower that a client is connected to, and its leader. Each of the two streams
// between them is delivered in order, with delays. All instants count from zero.
type ensemble struct {
	t        *rapid.T
	timeout  time.Duration
	halfTick time.Duration // the leader pings once in each
	jitter   time.Duration // what the leader sends takes up to this
	transit  time.Duration // what the follower sends takes up to this
	// what would arrive at either of them later does not
	cut time.Duration
	// what would arrive in between does so at the end; at the follower, up to late after it
	still struct{ from, to, late time.Duration }

	ping struct{ sent, arrives time.Duration } // the next one
	up   time.Duration                         // when the last packet reached the leader
	// when the last packet that was played reached the follower
	down time.Duration
	// the follower has heard the client, and not said so
	noted bool
	heard []time.Duration // when the leader heard of the client
}

// quarter is the part of a timeout that half a tick and the jitter may take together.
const quarter = 4

func newEnsemble(t *rapid.T, timeout time.Duration) *ensemble {
	e := &ensemble{
		t:        t,
		timeout:  timeout,
		halfTick: span(timeout/20, timeout/quarter).Draw(t, "half tick"),
		transit:  span(0, timeout/8).Draw(t, "slowest way up"),
		cut:      span(0, 40*timeout).Draw(t, "cut"),
		heard:    []time.Duration{0}, // the leader made the session
	}
	e.jitter = span(0, timeout/quarter-e.halfTick).Draw(t, "slowest way down")
	e.ping.sent = span(0, e.halfTick).Draw(t, "first ping")
	e.ping.arrives = e.toFollower(e.ping.sent)
	return e
}

// span draws one of 33 instants. Few and far between, they meet the bounds often.
func span(from, to time.Duration) *rapid.Generator[time.Duration] {
	const steps = 32
	return rapid.Map(rapid.IntRange(0, steps), func(n int) time.Duration {
		return from + (to-from)*time.Duration(n)/steps
	})
}

func (e *ensemble) toFollower(sent time.Duration) (arrives time.Duration) {
	arrives = max(e.down, sent+span(0, e.jitter).Draw(e.t, "down"))
	if e.still.from <= arrives && arrives < e.still.to {
		arrives = e.still.to + e.still.late
	}
	return arrives
}

func (e *ensemble) toLeader(sent time.Duration) (arrives time.Duration) {
	e.up = max(e.up, sent+span(0, e.transit).Draw(e.t, "up"))
	if e.still.from <= e.up && e.up < e.still.to {
		e.up = e.still.to
	}
	return e.up
}

// nextPing has the follower answer a ping and say whom it has heard.
func (e *ensemble) nextPing() {
	if e.ping.arrives <= e.cut && e.noted {
		if heard := e.toLeader(e.ping.arrives); heard <= e.cut && heard < e.expires(heard) {
			e.heard = append(e.heard, heard)
		}
		e.noted = false
	}
	e.down = e.ping.arrives
	e.ping.sent += e.halfTick
	e.ping.arrives = e.toFollower(e.ping.sent)
}

// request plays a request that reaches the follower then. It says when the follower answers;
// not, if it needs the leader and gets no answer. Requests do not overlap.
func (e *ensemble) request(arrives time.Duration, write bool) (answers time.Duration, ok bool) {
	for e.ping.arrives <= arrives {
		e.nextPing()
	}
	e.noted = true
	if !write {
		return arrives, true
	}
	asked := e.toLeader(arrives)
	if asked > e.cut || asked >= e.expires(asked) {
		return 0, false
	}
	for e.ping.sent <= asked { // these go ahead of the answer
		e.nextPing()
	}
	answers = e.toFollower(asked)
	e.down, e.ping.arrives = answers, max(e.ping.arrives, answers)
	return answers, answers <= e.cut
}

// expires is when the leader ends the session if what it has heard by then is all it
// ever hears.
func (e *ensemble) expires(by time.Duration) time.Duration {
	last := time.Duration(0)
	for _, heard := range e.heard {
		if heard <= by {
			last = heard
		}
	}
	return last + e.timeout
}

// No client hears of the session's end after the leader may have ended it, wherever the
// links break: the one to the leader at an instant that is drawn, and at each answer anew.
func TestStrictDeadlineIsNeverLaterThanTheLeaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { neverLaterThanTheLeaders(t, newEnsemble(t, timeout)) })
}

// The same while the network between follower and leader stands still for a time: a write can reach
// the leader before what the follower has heard. It does not break then: what the follower has sent
// before an answer reaches the leader.
func TestStrictDeadlineIsNeverLaterThanTheLeadersAfterTheNetworkStoodStill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newEnsemble(t, timeout)
		// less than the margin of the clocks
		e.transit = span(0, timeout/64).Draw(t, "slowest way up")
		e.cut = 1000 * timeout
		e.still.from = span(0, 2*timeout).Draw(t, "stands still")
		e.still.to = e.still.from + span(0, 2*timeout).Draw(t, "for")
		e.still.late = span(0, timeout).Draw(t, "pings come so much later")
		neverLaterThanTheLeaders(t, e)
	})
}

func neverLaterThanTheLeaders(t *rapid.T, e *ensemble) {
	d := session.NewDeadline(timeout, zero, 100)
	now := time.Duration(0)
	for range 200 {
		sent := now + span(0, timeout/3).Draw(t, "pause")
		write := rapid.Bool().Draw(t, "write")
		answers, ok := e.request(sent+span(0, timeout/16).Draw(t, "there"), write)
		if !ok {
			now = sent
			continue // the client may continue with reads
		}
		now = answers + span(0, timeout/16).Draw(t, "back")
		d.Answered(at(sent), at(now), write)
		known := now
		if e.still.to > 0 {
			known += e.transit
		}
		if due := d.At(true).Sub(zero); due > e.expires(known) {
			t.Fatalf("at %v the strict deadline is %v, the leader's %v", now, due, e.expires(known))
		}
	}
}

// A leader that its followers have replaced answers everything but writes. The next leader gives
// each session its whole timeout from when the leader begins, which may be the moment after the
// last write was committed.
func TestAReplacedLeaderProvesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := session.NewDeadline(timeout, zero, 100)
		replaced := span(0, 4*timeout).Draw(t, "replaced")
		now := time.Duration(0)
		for range 100 {
			sent := now + span(0, timeout/3).Draw(t, "pause")
			arrives := sent + span(0, timeout/16).Draw(t, "there")
			now = arrives + span(0, timeout/16).Draw(t, "back")
			switch rapid.IntRange(0, 5).Draw(t, "request") {
			case 0:
				d.Attached(timeout, at(sent))
			case 1, 2:
				if arrives <= replaced {
					d.Answered(at(sent), at(now), true)
				}
			default:
				d.Answered(at(sent), at(now), false)
			}
			if due := d.At(true); due.After(at(replaced + timeout)) {
				t.Fatalf("at %v the strict deadline is %v, the next leader's %v", now, due.Sub(zero), replaced+timeout)
			}
		}
	})
}

// A careful client must not lose sessions that live: the bound is the one that Deadline states.
func TestProvenIsNotLongAgoWhileWritesAreCommitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		longest := span(time.Millisecond, timeout/3).Draw(t, "longest pause")
		roundTrip := span(0, timeout/16).Draw(t, "round trip")
		bound := timeout*5/8 + 3*roundTrip
		d := session.NewDeadline(timeout, zero, 100)
		attached := d.At(true)
		now, beat := time.Duration(0), time.Duration(0)
		d.Answered(zero, at(roundTrip), true) // the first heartbeat
		for range rapid.IntRange(1, 300).Draw(t, "requests") {
			sent := now + span(0, longest).Draw(t, "pause")
			write := rapid.IntRange(0, 9).Draw(t, "write") == 0
			if due := d.Provable(at(beat)).Sub(zero); sent >= due {
				sent, beat, write = due, due, true
			}
			now = sent
			// Just before the answer is when the proof is oldest.
			if ago := at(sent + roundTrip).Sub(zero.Add(d.At(true).Sub(attached))); ago > bound {
				t.Fatalf("proven %v ago, more than %v", ago, bound)
			}
			d.Answered(at(sent), at(sent+roundTrip), write)
		}
	})
}

func TestProvableIsWhenAWriteProvesMore(t *testing.T) {
	d := session.NewDeadline(timeout, zero, 100)
	require.Equal(t, at(timeout/32*9), d.Provable(zero), "nothing was answered")
	d.Answered(at(time.Second), at(2*time.Second), false)
	require.Equal(t, at(2*time.Second+timeout/32*9), d.Provable(zero))
	require.Equal(t, at(3*time.Second+timeout/32*9), d.Provable(at(3*time.Second)), "none that was sent then was answered")
	d.Attached(timeout, at(5*time.Second))
	require.Equal(t, at(5*time.Second), d.Provable(zero), "the connect request, by any later write")
	require.Equal(t, at(5*time.Second+timeout/32*9), d.Provable(at(5*time.Second)), "a write of that time has proven it")
}

func TestAnsweredDoesNotAllocate(t *testing.T) {
	d := session.NewDeadline(timeout, zero, 100)
	now := zero
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		now = now.Add(100 * time.Millisecond)
		d.Answered(now, now, true)
	}))
}
