package debt

import "time"

// state is how far the deletion of a node is: see [step].
type state int8

const (
	expected state = iota
	unanswered
	due
	sent
	sought
	looking
	refused
	settled
)

// identity is how a node is recognized.
type identity int8

const (
	uniqueName   identity = iota // no other node has its path
	protectedID                  // its name contains an id
	reusableName                 // other nodes may have its path
)

// outcome is how the create of a node has ended.
type outcome int8

const (
	underWay  outcome = iota // or was not sent
	made                     // the node exists
	notMade                  // the create was refused, or not sent
	mayBeMade                // no answer was received
)

// record is what the next state of a debt depends on, beside the event.
type record struct {
	state     state
	kind      identity
	create    outcome
	open      bool // a create of the node was sent and not answered: it may still be carried out
	ephemeral bool // the servers delete the node with the session of its create
	bound     bool // Close ends the debt with a session: the node is ephemeral, or one session may delete it

	next  time.Time // when it is sent or sought; zero: as soon as there is a connection
	since time.Time // when the node was first sought
	lost  time.Time // when the loss of the session of its create was noticed
}

// event is something that happens to a debt.
type event struct {
	what
	facts
	began time.Time     // in gone and missing: when the deletion or the look began
	pause time.Duration // in failed: the pause
}

// facts describes the client and its sessions at an event.
type facts struct {
	closed  bool          // Close has taken the debts
	barred  bool          // the only session that may delete the node is over
	over    bool          // the session of the create is over for the client
	same    bool          // the connection that has answered is of the session of the create
	timeout time.Duration // the timeout of that session
}

// what is the kind of an event.
type what int8

const (
	wanted     what = iota // the caller wants the node, or its create was refused
	gaveUp                 // the caller does not want the node
	asked                  // its create is about to be sent
	createdIt              // its create was answered, or the node was found
	refusedIt              // its create was refused
	unknownIt              // its create was not answered
	attached               // there is another connection
	ready                  // the node can be deleted or sought on the connection, and it is time
	gone                   // a deletion was answered: there is no node
	missing                // a look was answered: there is no node to delete
	found                  // a look has found the node of a protected create
	changed                // the node was changed between the look and its deletion
	failed                 // a request has failed for now
	cut                    // the connection of a request was lost
	rejected               // the server does not delete the node
	unreadable             // the server does not permit the look
	looked                 // the sessions and the clock were looked at
	closing                // Close takes the debts
	lastLook               // Close has a connection on which it deletes what is left
)

// action is what follows from an event. The ledger carries it out.
type action int8

const (
	nothing action = iota
	watch          // look at the clock and the connection again
	send           // send the deletion
	seek           // look for the node
	settle         // the debt has ended: there is no node, or the caller has it
	abandon        // the debt has ended, and the node may exist
)

const (
	firstSweepPause = 500 * time.Millisecond
	sweepFor        = 17 * time.Minute
)

// step returns what an event makes of a debt. It is all there is to decide: it has no clock, sends
// nothing and locks nothing. An event that is not in the table changes nothing.
//
//	from        event       to          when
//	expected    gaveUp      unanswered  the create is under way, or Close looks for the node
//	                        due         the create was answered
//	                        sought      the name is reusable, or the create was not answered
//	                        settled     the create was refused
//	unanswered  createdIt   due         and so on, as from expected with gaveUp
//	expected    refusedIt   settled     Close has begun
//	due         attached    due         its pause is over
//	due         ready       sent
//	sought      ready       sent        its name is unique
//	                        looking     otherwise
//	sent        gone        settled     the node cannot be created any more: see conclude
//	                        sought      otherwise
//	sent        failed, cut due         after a pause, or on the next connection
//	sent        rejected    refused     an ephemeral node that may be created again
//	                        settled     otherwise; abandoned
//	looking     found       due         from now on its name is unique
//	looking     missing,    settled     the node cannot be created any more: see conclude
//	            gone        sought      otherwise
//	looking     changed     sought      at once
//	looking     failed, cut sought      after a pause, or on the next connection
//	looking     rejected,   settled     abandoned
//	            unreadable
//	sought      looked      sought      at once: the session of the create is over
//	refused     looked      settled     the session of the create has expired on the servers
//	due, sought looked      settled     abandoned: the only session that may delete it is over
//	any         wanted      settled     unless Close has the debt and the node is persistent
//	any         closing     settled     abandoned: Close ends its session
//	any         lastLook    due         its name is unique; a deletion on the connection is not repeated
//	                        sought      otherwise
//
// Every request of a debt whose only session is over is its last: it is abandoned.
func step(r record, e event, now time.Time) (record, action) {
	switch e.what {
	case wanted:
		if !e.closed || r.ephemeral {
			return r.end(settle)
		}
	case gaveUp, asked, createdIt, refusedIt, unknownIt:
		return r.heard(e, now)
	case attached:
		if r.state == due {
			return r.wait(due, time.Time{})
		}
	case ready:
		return r.begin()
	case closing:
		if r.bound {
			return r.end(abandon)
		}
	case lastLook:
		return r.forClose()
	case looked:
		return r.check(e, now)
	default:
		if r.state == sent || r.state == looking {
			return r.answered(e, now)
		}
	}
	return r, nothing
}

// end ends a debt, unless it has ended.
func (r record) end(how action) (record, action) {
	if r.state == settled {
		return r, nothing
	}
	r.state = settled
	return r, how
}

// wait has a debt wait for a time in a state; zero: for a connection, which the ledger tells it by
// ready.
func (r record) wait(in state, until time.Time) (record, action) {
	r.state, r.next = in, until
	if in == due && until.IsZero() {
		return r, nothing
	}
	return r, watch
}

// heard takes what the caller and the create say. The debt of a caller that waits for no node is
// resolved when its create has ended. After Close a refused create is not repeated.
func (r record) heard(e event, now time.Time) (record, action) {
	waits := r.state == unanswered || e.closed && r.state == expected && e.what == refusedIt
	switch e.what {
	case gaveUp:
		if r.state != expected {
			return r, nothing
		}
		r.state, waits = unanswered, true
	case asked:
		r.create, waits = underWay, false
	case createdIt:
		r.create, r.kind, r.open = made, uniqueName, false
	case refusedIt:
		r.create = notMade
	case unknownIt:
		r.create = mayBeMade
	}
	switch {
	case !waits:
		return r, nothing
	case r.create == notMade:
		return r.end(settle)
	case e.closed: // Close looks for it
		return r, nothing
	case r.kind == reusableName, r.create == mayBeMade:
		r.since = now
		return r.wait(sought, time.Time{})
	case r.create == made:
		return r.wait(due, time.Time{})
	}
	return r, nothing
}

// begin sends the deletion of a debt, or the look for its node.
func (r record) begin() (record, action) {
	switch {
	case r.state != due && r.state != sought:
		return r, nothing
	case r.state == due, r.kind == uniqueName:
		r.state = sent
		return r, send
	}
	r.state = looking
	return r, seek
}

// answered takes the end of a deletion or a look.
func (r record) answered(e event, now time.Time) (record, action) {
	again := sought
	if r.state == sent {
		again = due
	}
	switch {
	case e.what == gone, e.what == missing:
		return r.conclude(e)
	case e.barred:
		return r.end(abandon)
	case e.what == failed:
		return r.wait(again, now.Add(e.pause))
	case e.what == cut:
		return r.wait(again, time.Time{})
	case e.what == changed:
		return r.wait(sought, time.Time{})
	case e.what == found:
		r.kind, r.open = uniqueName, false
		return r.wait(due, time.Time{})
	case e.what == rejected && r.ephemeral && r.open && r.kind == uniqueName:
		r.state = refused
		return r, watch
	}
	return r.end(abandon)
}

// conclude takes a look or a deletion that has found no node. A server that stands still can carry
// out a create long after its connection was lost. So the look is repeated, with growing pauses,
// until one of these holds:
//   - the create was answered;
//   - the name is not of a protected create, or the look was the last of the session, by Close; and
//     the session of the create has committed a write since, on the connection of the look;
//   - the session of the create was lost twice its timeout ago: it has expired on the servers;
//   - sweepFor has passed.
//
// The servers delete an ephemeral node of a protected create with its session.
func (r record) conclude(e event) (record, action) {
	if r.since.IsZero() {
		r.since = e.began
	}
	switch {
	case !r.open, e.same && (e.closed || r.kind != protectedID):
		return r.end(settle)
	case !e.over:
		age := e.began.Sub(r.since)
		if age > sweepFor {
			return r.end(settle)
		}
		return r.wait(sought, e.began.Add(max(firstSweepPause, age)))
	case r.ephemeral && r.kind == protectedID:
		return r.end(settle)
	case r.lost.IsZero():
		r.lost = e.began
	}
	expired := r.expired(e)
	if !e.began.Before(expired) {
		return r.end(settle)
	}
	return r.wait(sought, expired)
}

// expired returns when the session of the create has expired on the servers. It is over for the
// client earlier: a follower reports after half a tick that it has heard a session, and the leader
// expires sessions once per tick, which is half a timeout at most.
func (r record) expired(e event) time.Time { return r.lost.Add(2 * e.timeout) }

// check takes what the sessions and the clock say.
func (r record) check(e event, now time.Time) (record, action) {
	switch {
	case e.barred && (r.state == due || r.state == sought):
		return r.end(abandon)
	case !r.open, !e.over, r.state != sought && r.state != refused:
		return r, nothing
	case r.lost.IsZero() && r.state == sought:
		r.lost = now
		return r.wait(sought, now)
	case r.lost.IsZero():
		r.lost = now
		return r.wait(refused, r.expired(e))
	case r.state == refused && !now.Before(r.next):
		return r.end(settle)
	}
	return r, nothing
}

// forClose prepares a debt for the last deletion or look.
func (r record) forClose() (record, action) {
	switch {
	case r.state == settled:
		return r, nothing
	case r.kind == uniqueName:
		return r.wait(due, time.Time{})
	}
	return r.wait(sought, time.Time{})
}
