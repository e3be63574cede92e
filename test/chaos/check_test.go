//go:build linux

package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// hold is one hold as its holder recorded it. Instants are of now.
type hold struct {
	Contender   int
	Incarnation int // of the contender's process, which may be killed and begin again
	Serial      int // of the process
	Session     int64

	Shared bool          // a reader's
	Asked  time.Duration // Acquire was called
	From   time.Duration // Acquire had returned
	To     time.Duration // about to release, or its context ended by a loss; 0: not yet
	Token  int64         // 0: not learned
	Loss   string        // why it ended before its time
	Writes []write
	Stale  bool // the guard let a write through after the release
	Firing firing
}

// write is a write to a shared node by a holder.
type write struct {
	Guarded bool
	Blind   bool // it read nothing, and only adds to the node's version
	Value   int  // that was written, unless it was blind
	Repeats int  // times that it was sent again, and may have been done again
	Outcome outcome
}

type outcome string

const (
	sent    outcome = "sent" // and so far not answered
	done    outcome = "done"
	unknown outcome = "unknown"
	refused outcome = "refused"
)

// span is the time of a fault.
type span struct{ From, To time.Duration }

// exceptions are what holders cannot know of, and so are not blamed for.
type exceptions struct {
	// Ended are the times in which a session was ended by force: at some instant in them. Its
	// holder gets no warning: it hears of it when its connection is cut, and the next one may hold
	// by then.
	Ended map[int64][]span

	// Stopped are the times in which a contender's process was suspended. It cannot know how late
	// it is when it resumes, and may have been about to record a hold.
	Stopped map[int][]span
}

// grace is how long after it went on a process that was stopped may note what happened before, and
// how long after its session was ended by force a contender may return from an Acquire that had the
// lease before.
const grace = time.Second

// claims are what holders may be blamed for: a hold whose session was ended by force, or whose
// process was stopped, counts up to that moment only. It also returns how many holds were shortened
// by either.
func (e exceptions) claims(holds []hold) (claims []hold, byForce, byStop int) {
	for _, h := range holds {
		forced, stopped := false, false
		for _, s := range e.Ended[h.Session] {
			// It may have released before it heard of it, or acquired and not have heard of it yet.
			if s.From < h.To && h.From < s.To+grace && h.Asked < s.To {
				h.To, forced = max(h.From, s.From), true
			}
		}
		for _, s := range e.Stopped[h.Contender] {
			if s.From < h.To && h.From < s.To+grace && h.Asked < s.To {
				h.To, stopped = min(h.To, s.From), true
			}
		}
		if forced {
			byForce++
		}
		if stopped {
			byStop++
		}
		if h.To > h.From {
			claims = append(claims, h)
		}
	}
	return claims, byForce, byStop
}

// conflicts is the checker: it returns what must not be, if most may hold at a time. That is more
// than most holds at an instant, one beside a shared one, and tokens that do not rise although
// there is one holder at a time.
func conflicts(claims []hold, most int) (found []error) {
	claims = slices.Clone(claims)
	slices.SortFunc(claims, func(a, b hold) int { return cmp.Compare(a.From, b.From) })
	var open []hold // overlap with the following ones
	var last hold   // with a token
	for _, h := range claims {
		open = slices.DeleteFunc(open, func(o hold) bool { return o.To <= h.From })
		alone := 0
		for _, o := range open {
			if o.Shared != h.Shared {
				found = append(found, fmt.Errorf("overlap: %+v and %+v", o, h))
			}
			if !o.Shared {
				alone++
			}
		}
		if !h.Shared && alone >= most {
			found = append(found, fmt.Errorf("overlap: %d beside %+v: %+v", alone, h, open))
		}
		open = append(open, h)
		// Of several that are in together the order means nothing.
		if h.Token != 0 && !h.Shared && most == 1 {
			if h.Token <= last.Token {
				found = append(found, fmt.Errorf("tokens do not rise: %+v and %+v", last, h))
			}
			last = h
		}
	}
	return found
}

// outOfOrder checks the confirmed guarded writes, each of which should add one to the previous one.
// It returns writes by a holder whose token is lower than an earlier write's, and writes whose
// value was written before: a late holder, and a lost update.
func outOfOrder(holds []hold) (stale, twice []error) {
	type entry struct {
		write
		hold
	}
	var all []entry
	for _, h := range holds {
		for _, w := range h.Writes {
			if w.Guarded && !w.Blind && w.Outcome == done {
				all = append(all, entry{w, h})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.Value, b.Value) })
	var highest int64
	for i, e := range all {
		if i > 0 && e.Value == all[i-1].Value {
			twice = append(twice, fmt.Errorf("%d was written twice: by %+v and %+v", e.Value, all[i-1].hold, e.hold))
		}
		if e.Token != 0 && e.Token < highest {
			stale = append(stale, fmt.Errorf("a stale holder wrote %d: %+v", e.Value, e.hold))
		}
		highest = max(highest, e.Token)
	}
	return stale, twice
}

const ms = time.Millisecond

func TestCheckerFindsWhatIsWrong(t *testing.T) {
	good := []hold{{From: 0, To: 2 * ms, Token: 1}, {From: 2 * ms, To: 4 * ms, Token: 2}, {From: 5 * ms, To: 9 * ms, Shared: true}, {From: 6 * ms, To: 8 * ms, Shared: true}}
	assert.Empty(t, conflicts(good, 1))
	for name, bad := range map[string][]hold{
		"two writers":         {{From: 0, To: 3 * ms}, {From: 2 * ms, To: 4 * ms}},
		"a short inside":      {{From: 0, To: 9 * ms}, {From: 1 * ms, To: 2 * ms, Shared: true}},
		"a long one reaching": {{From: 0, To: 9 * ms, Shared: true}, {From: 1 * ms, To: 2 * ms, Shared: true}, {From: 5 * ms, To: 6 * ms}},
		"stale token":         {{From: 0, To: 1 * ms, Token: 7}, {From: 2 * ms, To: 3 * ms, Token: 7}},
	} {
		assert.Len(t, conflicts(bad, 1), 1, name)
	}

	two := []hold{{From: 0, To: 9 * ms, Token: 2}, {From: 1 * ms, To: 3 * ms, Token: 1}, {From: 3 * ms, To: 5 * ms}}
	assert.Empty(t, conflicts(two, 2))
	assert.Len(t, conflicts(append(two, hold{From: 4 * ms, To: 6 * ms}), 2), 1, "three of two")
}

func TestExceptionsExcuseNoMoreThanTheyMust(t *testing.T) {
	late := []hold{{Contender: 1, Session: 1, From: 2 * ms, To: 5 * ms, Loss: "session lost"}, {Contender: 2, Session: 2, Asked: 1 * ms, From: 3 * ms, To: 9 * ms}}
	ended := func(session int64, from, to time.Duration) exceptions {
		return exceptions{Ended: map[int64][]span{session: {{from, to}}}}
	}
	stopped := func(contender int, from, to time.Duration) exceptions {
		return exceptions{Stopped: map[int][]span{contender: {{from, to}}}}
	}
	for _, c := range []struct {
		exceptions
		fine bool
	}{
		{exceptions{}, false},
		{ended(1, 3*ms, 3*ms), true}, {ended(2, 4*ms, 4*ms), false}, {ended(1, 4*ms, 4*ms), false}, {ended(1, 6*ms, 7*ms), false}, {ended(1, 0, 0), false}, // it asked after that
		{ended(1, 1*ms, 3*ms), true}, // it took a while, and the hold began in between
		{ended(1, 1*ms, 2*ms), true}, // it had the lease before
		{ended(1, 4*ms, 6*ms), false},
		{stopped(1, 3*ms, 4*ms), true}, {stopped(1, 4*ms, 5*ms), false}, {stopped(2, 6*ms, 7*ms), false},
		{stopped(1, 0, 1*ms), true},     // its record may be of long before
		{stopped(2, 0, 1*ms), false},    // it asked after that
		{stopped(1, 6*ms, 7*ms), false}, // it had ended
	} {
		claims, _, _ := c.claims(late)
		assert.Equal(t, c.fine, len(conflicts(claims, 1)) == 0, "%+v", c.exceptions)
	}
	_, _, n := stopped(1, 0, 1*ms).claims([]hold{{Contender: 1, From: grace + 2*ms, To: grace + 3*ms}})
	assert.Zero(t, n, "a stop is no excuse for ever")
}

func TestOrderOfWrites(t *testing.T) {
	by := func(token int64, values ...int) (h hold) {
		h.Token = token
		for _, v := range values {
			h.Writes = append(h.Writes, write{Guarded: true, Value: v, Outcome: done})
		}
		return h
	}
	for _, c := range []struct {
		holds        []hold
		stale, twice int
	}{
		{[]hold{by(1, 1, 2), by(2, 3), by(0, 4), by(5, 5)}, 0, 0},
		{[]hold{by(1, 1, 3), by(2, 2)}, 1, 0},
		{[]hold{by(1, 1), by(2, 1)}, 0, 1},
		{[]hold{{Token: 3, Writes: []write{{Guarded: true, Value: 1, Outcome: unknown}, {Value: 1, Outcome: done}}}, by(2, 1)}, 0, 0},
	} {
		stale, twice := outOfOrder(c.holds)
		assert.Len(t, stale, c.stale, "%+v", c.holds)
		assert.Len(t, twice, c.twice, "%+v", c.holds)
	}
}
