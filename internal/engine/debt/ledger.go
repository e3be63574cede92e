// Package debt is a ledger of the nodes that a client has created, or may have created, and that no
// caller wants: after a create of unknown outcome, a guaranteed delete, a release, or a failed call
// of a recipe. Everything that gives up a node registers it and returns. The ledger deletes the
// node on the connection, again after a lost reply, and by Close, even if the server creates it
// later.
//
// It is a room between packages engine and wire: [Host] and [Session] are all that it knows of the
// client. What an event makes of a debt is the function step, the table of this package; the rest
// carries out its actions.
//
//	step.go     the states, the events and the table
//	ledger.go   how a node is registered, and how its deletion is sent
//	look.go     how a node is found, and how the ledger keeps time
//	close.go    what Close does
//	wait.go     how a caller waits for a deletion
//	delete.go   the requests that delete a node
//
// # Identities
//
// A node of a unique name is deleted blindly, and again after a lost reply. The node of a protected
// create is sought by its id among the children of its parent. A node of a reusable name is looked
// at, and deleted at the version that was seen, once for all debts that claim it. One of them has
// created it: after a deletion that may have been carried out, that debt deletes a persistent node
// only if it is still the one that was seen.
//
// # Who owns the node of a protected create
//
//	while                            owner
//	its create is under way          the debt, expected: Close looks for it
//	the caller waits for a retry     the debt, expected: the retry may find the node
//	the caller has given up          the debt, from unanswered on
//	Create has returned it           the caller; with engine.Owing, the debt until Settle
//
// # Order
//
// The deletion of a unique name is sent before [Ledger.Discard] returns, if there is a connection.
// No order on a connection holds across sessions, so a create of this client waits until no debt at
// its path can delete the new node. An owner in this process that wants the node does not wait for
// a debt that is sought: looks skip the node while it does.
package debt

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
)

// Session is a session of the client.
type Session interface {
	Err() error // reason why the session is over; nil while it is alive
	Done() <-chan struct{}
	Timeout() time.Duration
}

// Host is the client. All methods are safe for concurrent use.
type Host interface {
	Life() context.Context    // cancelled when the client is closed
	Background(f func()) bool // runs f on a goroutine that Close waits for; false: Life has ended
	Log() *slog.Logger
	Unreachable() error // why no server can be used
}

// Ledger owns the debts of a client. All methods are safe for concurrent use.
type Ledger struct {
	host Host
	wake wait.Signal // Run looks at the clock, the sessions and the connection again

	// mu orders giving up, attaching a connection and Close. It guards what follows, and the
	// records of all debts. Nothing is sent while it is held.
	mu      sync.Mutex
	all     map[*Debt]struct{} // debts that are not settled
	link    line
	backlog []*Debt       // due when link was attached, and not sent yet
	looks   int           // under way
	moved   chan struct{} // closed when a debt changes its state; nil: no caller waits
	closed  bool          // Close has taken the remaining debts
	over    chan struct{} // closed when Close has deleted the nodes that it could
}

// line is a connection and its session; zero: there is none.
type line struct {
	conn    *wire.Conn
	session Session
}

// backlogWindow limits the deletions in flight that have waited for a connection: a heartbeat must
// not wait behind thousands.
const backlogWindow = 64

// New returns an empty ledger. The caller must call Run.
func New(h Host) *Ledger {
	return &Ledger{host: h, all: make(map[*Debt]struct{}), over: make(chan struct{})}
}

// Node is a node that a debt deletes.
type Node struct {
	Path      string  // the node's path; with Protected, its parent's
	Session   Session // the session in which its creates are sent; nil: they were answered
	Ephemeral bool    // the servers delete it when Session ends
	Only      Session // the only session that may delete it; nil: any
	With      Companion

	kind   identity
	id     string
	mine   func(owner int64) bool
	wanted func() bool
}

// Unique returns a node whose path no other node has.
func Unique(path string) Node { return Node{Path: path} }

// Protected returns the node in dir whose name contains id.
func Protected(dir, id string) Node { return Node{Path: dir, kind: protectedID, id: id} }

// Reusable returns a node at a path that other nodes may have. mine reports whether a node with
// this owner belongs to this client.
//
// wanted reports whether another owner in this process wants the node: then it stays. Neither
// function may block.
func Reusable(path string, mine func(owner int64) bool, wanted func() bool) Node {
	return Node{Path: path, kind: reusableName, mine: mine, wanted: wanted}
}

// Debt is a node in the ledger.
type Debt struct {
	ledger *Ledger

	// Guarded by Ledger.mu.
	node     Node
	record   record
	ticket   *ticket     // the ticket of the waiting caller; nil: none
	pauses   wait.Pauses // between tries
	conn     *wire.Conn  // while sent
	look     *look       // while looking
	deleting int64       // czxid of the node of a reusable name whose deletion was sent
}

// add registers a node. s.mu is held.
func (s *Ledger) add(d *Debt, n Node, in state) *Debt {
	d.ledger, d.node = s, n
	d.record = record{
		state: in, kind: n.kind, open: n.Session != nil,
		ephemeral: n.Ephemeral, bound: n.Ephemeral || n.Only != nil,
	}
	d.pauses = wait.Pauses{First: 50 * time.Millisecond, Last: time.Second}
	s.all[d] = struct{}{}
	if s.closed { // its owner has learned of Close by the end of its session
		s.on(d, event{what: closing}, wire.ErrClosed)
	}
	return d
}

// Owe registers a node before its create is sent. Until Settle or GiveUp, Close deletes the node.
func (s *Ledger) Owe(n Node) *Debt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(new(Debt), n, expected)
}

// Discard registers a node of a unique name, and sends its deletion if there is a connection.
func (s *Ledger) Discard(n Node) {
	s.mu.Lock()
	post := s.offer(s.add(new(Debt), n, due))
	s.mu.Unlock()
	call(post)
}

// Settle removes a debt whose node the caller has. It returns false if the client was closed first:
// then the debt remains, and Close deletes the node. For an ephemeral node it returns true, because
// the caller observes the session.
func (d *Debt) Settle() bool {
	s := d.ledger
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on(d, event{what: wanted}, nil)
	return !s.closed || d.record.ephemeral
}

// GiveUp deletes the node in the background, whether it exists already or is created later. It does
// not block.
func (d *Debt) GiveUp() { d.hears(event{what: gaveUp}, "") }

// Asks notes that a create is about to be sent.
func (d *Debt) Asks() { d.hears(event{what: asked}, "") }

// CreateEnded notes how a create has ended, even without an answer, and the path of the node.
func (d *Debt) CreateEnded(path string, err error) {
	what := refusedIt
	switch {
	case err == nil:
		what = createdIt
	case verdict.Unknown(err):
		what = unknownIt
	}
	d.hears(event{what: what}, path)
}

// Created reports whether the create of an ephemeral node at a path of the server was answered.
func (d *Debt) Created(path string) bool {
	d.ledger.mu.Lock()
	defer d.ledger.mu.Unlock()
	return d.record.create == made && d.record.ephemeral && d.node.Path == path
}

// hears takes what the caller or the create says. path is the node's if it was created.
func (d *Debt) hears(e event, path string) {
	s := d.ledger
	s.mu.Lock()
	if e.what == createdIt {
		d.node.Path = path
	}
	s.on(d, e, nil)
	post := s.offer(d)
	s.mu.Unlock()
	call(post)
}

// ID returns the id in the name of a protected node.
func (d *Debt) ID() string { return d.node.id }

// MayBeMadeBy reports whether the create was sent in this session and its outcome is unknown.
func (d *Debt) MayBeMadeBy(session Session) bool {
	d.ledger.mu.Lock()
	defer d.ledger.mu.Unlock()
	return d.record.create == mayBeMade && d.node.Session == session
}

// on takes an event: the one place at which the record of a debt changes. why is the reason if the
// debt is abandoned; the end of the only session that may delete the node takes precedence. s.mu is
// held.
func (s *Ledger) on(d *Debt, e event, why error) (do action) {
	was := d.record.state
	e.closed = s.closed
	e.barred = d.node.Only != nil && d.node.Only.Err() != nil
	if of := d.node.Session; d.record.open && of.Err() != nil {
		e.over, e.timeout = true, of.Timeout()
	}
	d.record, do = step(d.record, e, time.Now())
	switch {
	case do == watch:
		s.wake.Raise()
	case do == abandon && e.what == closing && was == sent:
		d.ticket.fails(wire.Abandoned(why))
	case do == abandon && e.what != closing && e.barred:
		d.ticket.fails(d.node.Only.Err())
	case do == abandon:
		d.ticket.fails(why)
	}
	if d.record.state == settled && was != settled {
		delete(s.all, d)
		d.ticket.end()
	}
	if d.record.state != was && s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
	return do
}

// changed returns a channel that is closed when a debt changes its state. s.mu is held.
func (s *Ledger) changed() <-chan struct{} {
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.moved
}

// offer delivers a debt that is due.
func (s *Ledger) offer(d *Debt) (post func()) {
	if d.record.state != due {
		return nil
	}
	return s.deliver(d)
}

// deliver puts the deletion of a debt on the connection, if there is one and it is time. It returns
// the function that sends it, which must be called without s.mu; nil: none. s.mu is held.
func (s *Ledger) deliver(d *Debt) (post func()) {
	l, ok := s.usable(d)
	if !ok || d.record.next.After(time.Now()) || s.on(d, event{what: ready}, nil) != send {
		return nil
	}
	d.conn = l.conn
	d.ticket.tried()
	x := &deletion{path: d.node.Path, with: d.node.With, conn: l.conn, last: s.closed}
	x.done = func(err error) {
		s.deleted(d, l, err)
		s.sendNext()
	}
	return x.begin
}

// call calls a function that sends, if there is one.
func call(post func()) {
	if post != nil {
		post()
	}
}

// usable returns the connection on which a debt can be deleted or sought. s.mu is held.
func (s *Ledger) usable(d *Debt) (l line, ok bool) {
	l = s.link
	switch {
	case l.conn == nil, wait.Closed(l.conn.Down()), d.node.Only != nil && d.node.Only != l.session:
		return l, false
	}
	return l, l.session.Err() == nil || s.closed
}

// deleted takes the reply to a deletion that was sent on l.
func (s *Ledger) deleted(d *Debt, l line, err error) {
	var post func()
	s.mu.Lock()
	if d.record.state == sent && d.conn == l.conn {
		d.ticket.note(err)
		s.answered(d, l, time.Now(), err)
		post = s.offer(d) // there may be another connection by now
	}
	s.mu.Unlock()
	call(post)
}

// answered takes the reply to the deletion of a debt, on l. s.mu is held.
func (s *Ledger) answered(d *Debt, l line, began time.Time, err error) {
	switch {
	case isGone(err):
		s.on(d, event{what: gone, began: began, facts: facts{same: d.node.Session == l.session}}, nil)
	case verdict.MayPass(err):
		s.again(d, l)
	default:
		if d.ticket == nil && (d.node.Only == nil || d.node.Only.Err() == nil) {
			path := d.node.Path
			s.host.Background(func() { s.host.Log().Warn("node was not deleted", "path", path, "reason", err) }) // ends at once
		}
		s.on(d, event{what: rejected}, err)
	}
}

// again repeats a request that has failed on l. s.mu is held.
func (s *Ledger) again(d *Debt, l line) {
	if wait.Closed(l.conn.Down()) {
		s.on(d, event{what: cut}, nil)
		return
	}
	s.on(d, event{what: failed, pause: d.pauses.Next()}, nil)
}

// Attach sets the connection on which debts are deleted, and its session. It is called before
// anything else uses the connection.
func (s *Ledger) Attach(conn *wire.Conn, session Session) {
	s.mu.Lock()
	s.link, s.backlog = line{conn, session}, nil
	for d := range s.all {
		if s.on(d, event{what: attached}, nil); d.record.state == due {
			s.backlog = append(s.backlog, d)
		}
	}
	n := min(len(s.backlog), backlogWindow)
	s.mu.Unlock()
	for range n {
		s.sendNext()
	}
	s.wake.Raise()
}

// Detach takes the connection out of use.
func (s *Ledger) Detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = line{}
}

// sendNext sends the next deletion of the backlog.
func (s *Ledger) sendNext() {
	var post func()
	s.mu.Lock()
	for len(s.backlog) > 0 && post == nil {
		d := s.backlog[0]
		s.backlog = s.backlog[1:]
		post = s.offer(d)
	}
	s.mu.Unlock()
	call(post)
}

// wanted reports whether another owner in this process wants the node.
func (d *Debt) wanted() bool { return d.node.wanted != nil && d.node.wanted() }

// blocks reports whether a node that is created at a path now may be deleted for the debt. The
// mutex is held.
func (d *Debt) blocks(path string) bool {
	switch {
	case d.node.Path != path || d.record.kind == protectedID:
		return false
	case d.record.state == sought:
		return !d.wanted()
	}
	return d.record.state == due || d.record.state == sent || d.record.state == looking
}

// AwaitPlace waits until no node that is created at one of these paths is deleted for a debt.
func (s *Ledger) AwaitPlace(ctx context.Context, paths ...string) error {
	for {
		var changed <-chan struct{}
		s.mu.Lock()
		for d := range s.all {
			if slices.ContainsFunc(paths, d.blocks) {
				changed = s.changed()
				break
			}
		}
		s.mu.Unlock()
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: this client is still deleting an earlier node", wait.Err(ctx))
		case <-s.host.Life().Done():
			return wire.ErrClosed
		}
	}
}

// Owed returns the names of the children of dir that the client owes. While the deletion of one is
// unanswered, changed is a channel that is closed when the answer may have arrived.
func (s *Ledger) Owed(dir string) (names []string, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d := range s.all {
		parent, name := proto.Split(d.node.Path)
		if d.record.state == expected || d.record.kind == protectedID || parent != dir {
			continue
		}
		names = append(names, name)
		if d.record.state == due || d.record.state == sent {
			changed = s.changed()
		}
	}
	slices.Sort(names)
	return names, changed
}
