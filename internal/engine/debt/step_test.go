package debt

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const timeout = 10 * time.Second

var (
	now   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	began = now.Add(-time.Second)
)

// row is a row of the table above step, in the words of its columns. The first row that fits
// counts.
type row struct {
	from []state
	on   []what
	when func(r record, e event) bool // nil: always
	to   state
	do   action
	next func(r record, e event) time.Time // nil: unchanged
}

var (
	live       = []state{expected, unanswered, due, sent, sought, looking, refused}
	flying     = []state{sent, looking}
	unsettled  = []state{due, sought}
	answers    = []what{failed, cut, rejected, unreadable, changed, found}
	noNode     = []what{gone, missing}
	immediate  = func(record, event) time.Time { return time.Time{} }
	afterPause = func(_ record, e event) time.Time { return now.Add(e.pause) }
)

func barred(_ record, e event) bool        { return e.barred }
func closedAlready(_ record, e event) bool { return e.closed }
func isMade(r record, _ event) bool        { return r.create == made }
func isUnique(r record, _ event) bool      { return r.kind == uniqueName }
func isRefused(r record, _ event) bool     { return r.create == notMade }
func isSought(r record, _ event) bool      { return r.kind == reusableName || r.create == mayBeMade }

// ended reports whether the session of an open create is over for the client.
func ended(r record, e event) bool { return r.open && e.over }

// lostAt returns when the loss of the session was noticed, if not before then now.
func lostAt(r record, noticed time.Time) time.Time {
	if r.lost.IsZero() {
		return noticed
	}
	return r.lost
}

func age(r record, e event) time.Duration {
	if r.since.IsZero() {
		return 0
	}
	return e.began.Sub(r.since)
}

var table = []row{
	// The caller.
	{live, []what{wanted}, func(r record, e event) bool { return !e.closed || r.ephemeral }, settled, settle, nil},
	{[]state{expected}, []what{gaveUp}, isRefused, settled, settle, nil},
	{[]state{expected}, []what{gaveUp}, closedAlready, unanswered, nothing, nil},
	{[]state{expected}, []what{gaveUp}, isSought, sought, watch, immediate},
	{[]state{expected}, []what{gaveUp}, isMade, due, nothing, immediate},
	{[]state{expected}, []what{gaveUp}, nil, unanswered, nothing, nil},

	// The create.
	{[]state{unanswered}, []what{refusedIt}, nil, settled, settle, nil},
	{[]state{expected}, []what{refusedIt}, closedAlready, settled, settle, nil},
	{[]state{unanswered}, []what{createdIt}, closedAlready, unanswered, nothing, nil},
	{[]state{unanswered}, []what{createdIt}, nil, due, nothing, immediate},
	{[]state{unanswered}, []what{unknownIt}, closedAlready, unanswered, nothing, nil},
	{[]state{unanswered}, []what{unknownIt}, nil, sought, watch, immediate},

	// The connection.
	{[]state{due}, []what{attached}, nil, due, nothing, immediate},
	{[]state{due}, []what{ready}, nil, sent, send, nil},
	{[]state{sought}, []what{ready}, isUnique, sent, send, nil},
	{[]state{sought}, []what{ready}, nil, looking, seek, nil},

	// No node was found.
	{flying, noNode, func(r record, _ event) bool { return !r.open }, settled, settle, nil},
	{flying, noNode, func(r record, e event) bool { return e.same && r.kind != protectedID }, settled, settle, nil},
	{flying, noNode, func(_ record, e event) bool { return e.same && e.closed }, settled, settle, nil},
	{flying, noNode, func(r record, e event) bool { return !e.over && age(r, e) > sweepFor }, settled, settle, nil},
	{flying, noNode, func(_ record, e event) bool { return !e.over }, sought, watch,
		func(r record, e event) time.Time { return e.began.Add(max(firstSweepPause, age(r, e))) }},
	{flying, noNode, func(r record, _ event) bool { return r.ephemeral && r.kind == protectedID }, settled, settle, nil},
	{flying, noNode, func(r record, e event) bool { return !e.began.Before(lostAt(r, e.began).Add(2 * timeout)) }, settled, settle, nil},
	{flying, noNode, nil, sought, watch, func(r record, e event) time.Time { return lostAt(r, e.began).Add(2 * timeout) }},

	// Other answers.
	{flying, answers, barred, settled, abandon, nil},
	{[]state{sent}, []what{failed}, nil, due, watch, afterPause},
	{[]state{sent}, []what{cut}, nil, due, nothing, immediate},
	{[]state{looking}, []what{failed}, nil, sought, watch, afterPause},
	{[]state{looking}, []what{cut}, nil, sought, watch, immediate},
	{flying, []what{changed}, nil, sought, watch, immediate},
	{flying, []what{found}, nil, due, nothing, immediate},
	{flying, []what{rejected}, func(r record, _ event) bool { return r.ephemeral && r.open && r.kind == uniqueName }, refused, watch, nil},
	{flying, []what{rejected, unreadable}, nil, settled, abandon, nil},

	// The clock and the sessions.
	{unsettled, []what{looked}, barred, settled, abandon, nil},
	{[]state{sought}, []what{looked}, func(r record, e event) bool { return ended(r, e) && r.lost.IsZero() }, sought, watch,
		func(record, event) time.Time { return now }},
	{[]state{refused}, []what{looked}, func(r record, e event) bool { return ended(r, e) && r.lost.IsZero() }, refused, watch,
		func(record, event) time.Time { return now.Add(2 * timeout) }},
	{[]state{refused}, []what{looked}, func(r record, e event) bool { return ended(r, e) && !now.Before(r.next) }, settled, settle, nil},

	// Close.
	{live, []what{closing}, func(r record, _ event) bool { return r.bound }, settled, abandon, nil},
	{live, []what{lastLook}, isUnique, due, nothing, immediate},
	{live, []what{lastLook}, nil, sought, watch, immediate},
}

// oracle returns what the table says.
func oracle(r record, e event) (state, action, time.Time) {
	for _, row := range table {
		if slices.Contains(row.from, r.state) && slices.Contains(row.on, e.what) && (row.when == nil || row.when(r, e)) {
			next := r.next
			if row.next != nil {
				next = row.next(r, e)
			}
			return row.to, row.do, next
		}
	}
	return r.state, nothing, r.next
}

// TestStep_EachCell compares step with the table for every record and every event, even if they
// cannot meet.
func TestStep_EachCell(t *testing.T) {
	cells := 0
	used := make(map[state]int)
	each(func(r record, e event) {
		cells++
		to, do, next := oracle(r, e)
		got, action := step(r, e, now)
		if got.state != to || action != do || to != settled && !got.next.Equal(next) {
			require.Failf(t, "a cell", "%+v\n%+v\ngot  %d, action %d, next %v\nwant %d, action %d, next %v", r, e, got.state, action, got.next, to, do, next)
		}
		used[to]++
		rest(t, r, got, e)
	})
	require.Len(t, used, int(settled)+1)
	t.Log(cells, "cells")
}

// rest requires that the rest of a record changes only by the events that say so.
func rest(t *testing.T, r, got record, e event) {
	create := map[what]outcome{asked: underWay, createdIt: made, refusedIt: notMade, unknownIt: mayBeMade}
	want := r
	if c, says := create[e.what]; says {
		want.create = c
	}
	if e.what == createdIt || e.what == found && got.state == due && r.state != due {
		want.kind, want.open = uniqueName, false
	}
	if got.create != want.create || got.kind != want.kind || got.open != want.open || got.ephemeral != r.ephemeral || got.bound != r.bound {
		require.Failf(t, "the rest of a record", "%+v\n%+v\n%+v", r, e, got)
	}
}

// each calls f with every record and every event.
func each(f func(r record, e event)) {
	bools := []bool{false, true}
	for s := expected; s <= settled; s++ {
		for kind := uniqueName; kind <= reusableName; kind++ {
			for create := underWay; create <= mayBeMade; create++ {
				for flags := range 8 {
					for _, lost := range []time.Time{{}, began.Add(-2 * timeout), began.Add(-timeout)} {
						for _, since := range []time.Time{{}, began.Add(-2 * time.Second), began.Add(-2 * sweepFor)} {
							for _, next := range []time.Time{{}, now.Add(time.Minute)} {
								r := record{s, kind, create, flags&1 > 0, flags&2 > 0, flags&4 > 0, next, since, lost}
								for w := wanted; w <= lastLook; w++ {
									if create != made && w > unknownIt {
										continue // it decides only when the caller and the create say something
									}
									for _, closed := range bools {
										for flags := range 8 {
											f(r, event{w, facts{closed, flags&1 > 0, flags&2 > 0, flags&4 > 0, timeout}, began, time.Minute})
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

// world is what a debt does not know: a server, its sessions, and the node. It is the oracle of
// random sequences.
type world struct {
	t      *testing.T
	random *rand.Rand
	record record
	now    time.Time
	log    []any

	exists  bool      // the node
	pending time.Time // until then a server may carry out the create; zero: it never will
	up      bool      // there is a connection
	same    bool      // of the session of the create
	over    time.Time // when the session of the create ended for the client; zero: it lives
	expires time.Time // when it ends on the servers
	began   time.Time // of the look or deletion
	closed  bool
}

// newWorld returns a world with a debt of any kind from the first one on.
func newWorld(t *testing.T, seed, stream uint64, first identity) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, stream)), now: now, up: true, same: true}
	w.log = append(w.log, "seed", seed)
	w.record = record{kind: first + identity(w.random.IntN(int(reusableName-first)+1)), open: true, ephemeral: w.random.IntN(2) == 0}
	w.record.bound = w.record.ephemeral
	return w
}

// on has the debt take an event, and requires that it does not end before its node.
func (w *world) on(what what) action {
	e := event{what: what, began: w.began, pause: 100 * time.Millisecond}
	e.closed, e.same = w.closed, w.same
	if w.record.open && !w.over.IsZero() {
		e.over, e.timeout = true, timeout
	}
	was := w.record.state
	var do action
	w.record, do = step(w.record, e, w.now)
	w.log = append(w.log, what, w.record.state)
	if do == settle && what != wanted {
		require.False(w.t, w.exists, "the node exists: %v", w.log)
		servers := w.record.ephemeral && !w.over.IsZero() // they delete the node with its session
		require.False(w.t, w.mayCome() && !servers, "the node may be created: %v", w.log)
	}
	if do == abandon {
		require.True(w.t, what == closing && w.record.ephemeral, "abandoned: %v from %d", w.log, was)
	}
	return do
}

// mayCome reports whether a server may carry out the create now or later.
func (w *world) mayCome() bool { return w.now.Before(w.pending) && !w.expired() }

func (w *world) expired() bool { return !w.expires.IsZero() && !w.now.Before(w.expires) }

// pass lets time pass, and a server carry out a create that is late.
func (w *world) pass(d time.Duration) {
	if w.mayCome() && w.random.IntN(4) == 0 {
		w.exists, w.pending = true, time.Time{}
	}
	w.now = w.now.Add(d)
	if w.expired() && w.record.ephemeral {
		w.exists = false
	}
}

// create has the create be sent, and end in one of three ways.
func (w *world) create() {
	w.on(asked)
	w.pending = w.now.Add(time.Duration(w.random.Int64N(int64(sweepFor))))
	if w.random.IntN(3) == 0 {
		w.on(gaveUp)
	}
	switch w.random.IntN(3) {
	case 0:
		w.exists, w.pending = true, time.Time{}
		w.on(createdIt)
	case 1:
		w.pending = time.Time{}
		w.on(refusedIt)
	default:
		w.on(unknownIt)
		w.reconnect()
	}
}

// reconnect replaces the connection. The session of the create may be over by then.
func (w *world) reconnect() {
	if w.record.state == sent || w.record.state == looking {
		w.on(cut)
	}
	w.up, w.same = w.random.IntN(4) > 0, w.over.IsZero()
	if w.over.IsZero() && w.random.IntN(4) == 0 {
		w.over, w.same = w.now, false
		w.expires = w.now.Add(time.Duration(w.random.Int64N(int64(2 * timeout))))
	}
	if w.up {
		w.on(attached)
	}
}

// serve answers the request of a debt, or loses it or its reply.
func (w *world) serve() {
	if w.record.state == sent {
		lost := w.random.IntN(4)
		if lost != 0 {
			w.exists = false
		}
		switch lost {
		case 0, 1:
			w.reconnect()
		case 2:
			w.on(failed)
		default:
			if w.same && w.record.kind != protectedID {
				w.pending = time.Time{} // the session has moved: its old connection writes nothing
			}
			w.on(gone)
		}
		return
	}
	switch {
	case w.random.IntN(4) == 0:
		w.reconnect()
		return
	case w.same && (w.closed || w.record.kind == reusableName):
		w.pending = time.Time{} // likewise
	}
	switch {
	case !w.exists:
		w.on(missing)
	case w.record.kind == protectedID:
		w.on(found)
		w.pending = time.Time{} // it was this create
	case w.random.IntN(4) == 0:
		w.on(changed)
	default:
		w.exists = false
		w.on(gone)
	}
}

// live has one thing happen.
func (w *world) live() {
	w.on(looked)
	switch state := w.record.state; {
	case (state == due || state == sought) && w.up && !w.record.next.After(w.now) && w.random.IntN(3) > 0:
		w.began = w.now
		w.on(ready)
	case (state == sent || state == looking) && w.random.IntN(3) > 0:
		w.serve()
	case w.random.IntN(6) == 0:
		w.reconnect()
	default:
		w.pass(time.Duration(w.random.Int64N(int64(time.Second) << w.random.IntN(8))))
	}
}

// TestStep_RandomSequences: no debt ends while its node exists or may be created, and each debt
// ends when the servers are well.
func TestStep_RandomSequences(t *testing.T) {
	for seed := range uint64(20_000) {
		w := newWorld(t, seed, 0, uniqueName)
		if w.record.kind == uniqueName { // a node that exists, and whose create may be carried out twice
			w.record.state, w.exists = due, true
			w.pending = now.Add(time.Duration(w.random.Int64N(int64(sweepFor))))
		} else {
			w.create()
		}
		for range w.random.IntN(30) {
			w.live()
		}
		if w.record.state == expected {
			w.on(gaveUp)
		}
		for n := 0; w.record.state != settled; n++ {
			require.Less(t, n, 10_000, "it never ends: %v", w.log[:min(len(w.log), 100)])
			w.live()
		}
	}
}

// TestStep_CloseEndsNoDebtTooEarly has Close begin at a random moment, and delete what is left on a
// connection of the session or of another one.
func TestStep_CloseEndsNoDebtTooEarly(t *testing.T) {
	for seed := range uint64(20_000) {
		w := newWorld(t, seed, 1, protectedID)
		w.create()
		for range w.random.IntN(10) {
			w.live()
		}
		w.closed = true
		w.on(closing)
		for range 3 {
			if w.record.state == settled {
				break
			}
			w.on(lastLook)
			w.began = w.now
			for n := 0; n < 3 && w.on(ready) != nothing; n++ {
				w.serve()
			}
		}
		if w.record.state == expected || w.record.state == unanswered {
			require.Failf(t, "Close has not taken the debt", "%v", w.log)
		}
	}
}
