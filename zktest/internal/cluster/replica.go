package cluster

import (
	"cmp"
	"time"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// Replica is one server's copy of the data and the sessions. Only transactions change it.
type Replica struct {
	*Monitor
	Tree        *tree.Tree
	Sessions    map[int64]*Session
	Number      int // number of the server in its cluster, from 1
	lastSession int64
	host        Host
}

// Session is a session whose creation the replica has applied.
type Session struct {
	ID      int64
	began   time.Duration // the timeout in its first transaction; a new leader knows no other
	Timeout time.Duration // timeout that this server granted last
	Conn    Conn          // nil unless the client is connected to this server
}

// Conn is a client's connection.
type Conn interface {
	// Cut ends the connection, without waiting.
	Cut()
}

// Host is the server that serves the clients of a replica.
type Host interface {
	// Runs reports whether the server's process exists and is not paused.
	Runs() bool
	// Notify sends the events of a transaction that was just applied.
	Notify(zxid int64, events []tree.Event)
	// Ended is called when a session has ended: closed by its client, or expired.
	Ended(session, zxid int64, expired bool)
	// Leads is called when the server begins to lead its cluster, and when it leads no more.
	Leads(leads bool)
	// Hear calls Heard of the quorum for each session that was heard since the last call.
	Hear()
	// HangUp cuts all connections. Requests that were not applied are lost.
	HangUp()
	// Address is the address for clients.
	Address() string
	// Done is closed when the server is closed.
	Done() <-chan struct{}
}

// newReplica returns a replica without sessions.
func newReplica(monitor *Monitor, rules tree.Rules, number int) *Replica {
	return &Replica{
		Monitor:  monitor,
		Tree:     tree.NewTree(rules),
		Sessions: make(map[int64]*Session),
		Number:   number,
		// As in real servers, the time in the upper bytes keeps ids distinct from the ids of an
		// earlier server.
		lastSession: int64(number)<<56 | int64(uint64(time.Now().UnixMilli())<<24>>8),
	}
}

// Attach sets the replica's server. It must be called once, before all other methods.
func (r *Replica) Attach(h Host) { r.host = h }

// State returns r. It implements the method of [Quorum] for the types that embed a Replica.
func (r *Replica) State() *Replica { return r }

// NewSession returns the id for a new session.
func (r *Replica) NewSession() int64 {
	r.lastSession++
	return r.lastSession
}

// Session returns the session with this id, and creates it if it does not exist.
func (r *Replica) Session(id int64) *Session {
	if r.Sessions[id] == nil {
		r.Sessions[id] = &Session{ID: id}
	}
	return r.Sessions[id]
}

// apply applies the next entry of the log, notifies watchers, and answers q, unless it is nil.
func (r *Replica) apply(e *Entry, q Caller) {
	res := r.Tree.Apply(&e.Request)
	ended := (*Session)(nil)
	switch {
	case e.Edit != nil:
	case e.Op == proto.OpConnect:
		sess := r.Session(e.Session)
		sess.began, sess.Timeout = e.Timeout, cmp.Or(sess.Timeout, e.Timeout)
	case e.Op == proto.OpCloseSession:
		ended = r.Sessions[e.Session]
		delete(r.Sessions, e.Session)
		r.host.Ended(e.Session, e.Zxid, e.Origin == nil)
	}
	r.host.Notify(e.Zxid, res.Events)
	switch {
	case q != nil && e.Op != q.Op(): // another request with the same number
		q.Answer(e.Zxid, tree.Result{Code: proto.MarshallingError})
	case q != nil:
		q.Answer(e.Zxid, res)
	case ended != nil && ended.Conn != nil:
		ended.Conn.Cut()
	}
}
