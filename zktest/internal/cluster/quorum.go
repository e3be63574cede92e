package cluster

import (
	"errors"
	"time"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// The errors of quorums and clusters.
var (
	ErrNoLeader  = errors.New("zktest: no leader")
	ErrNotMember = errors.New("zktest: the server is not a member of this cluster")
	ErrNoSession = errors.New("zktest: no such session")
	ErrClosed    = errors.New("zktest: server closed")
)

// Quorum orders the transactions of a server, and decides when its sessions expire.
type Quorum interface {
	State() *Replica

	// Role returns the server's role.
	Role() Role
	// Serves reports whether clients are served: a member of a cluster needs a leader.
	Serves() bool

	// Submit hands over a transaction. When it is applied, its origin is answered.
	Submit(e *Entry)
	// Resume tells q whether a session exists. If it does, its timeout starts again.
	Resume(q Caller, session int64, timeout time.Duration)
	// Sync answers q after everything that was committed before has been applied.
	Sync(q Caller, path string)
	// Heard notes that the client of a session was heard.
	Heard(session int64, timeout time.Duration, at time.Time)
	// Expires returns the time at which a session expires if it is not heard again.
	Expires(session int64) time.Time

	// Edit applies a transaction of the test, and returns its result. The lock is not held.
	Edit(change func(*tree.Txn) proto.Code) (tree.Result, error)
	// Expire ends a session now. The lock is not held.
	Expire(session int64) error
	// Reap deletes the containers and TTL nodes that are due. The lock is not held.
	Reap()
	// Advance moves the clock. The lock is not held.
	Advance(d time.Duration)

	// Halted, Started, Paused and Resumed follow a change of the server's process.
	Halted()
	Started()
	Paused()
	Resumed(pause time.Duration)
}

// Role is a server's role in its ensemble.
type Role int

// The roles.
const (
	Standalone Role = iota
	Leader
	Follower
)

// String returns the role as a real server reports it, such as "leader".
func (r Role) String() string {
	return [...]string{"standalone", "leader", "follower"}[r]
}

// Entry is a transaction in a server's log.
type Entry struct {
	tree.Request
	Timeout time.Duration // timeout of a new session
	Origin  Caller        // client that waits for the result; may be nil
	at      *Member       // the member that it was submitted to; nil for a server without a cluster
	voters  voters        // the members that decide once this is committed; nil: as before
}

// Caller waits for the result of a transaction, or for the leader's answer about a session.
type Caller interface {
	Op() proto.Op
	Xid() int32 // the number that the client has given the request
	Answer(zxid int64, res tree.Result)
	// Hang cuts the connection of the client.
	Hang()
}

// edit is the caller of a transaction of the test. The fields are set when done is closed.
type edit struct {
	done chan struct{}
	res  tree.Result
}

func newEdit() *edit { return &edit{done: make(chan struct{})} }

func (*edit) Op() proto.Op { return 0 }
func (*edit) Xid() int32   { return 0 }
func (*edit) Hang()        {}

func (q *edit) Answer(_ int64, res tree.Result) {
	q.res = res
	close(q.done)
}

// answered reports whether the transaction was applied.
func (q *edit) answered() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// ending is the transaction that ends a session.
func ending(session int64) *Entry {
	return &Entry{Request: tree.Request{Op: proto.OpCloseSession, Session: session}}
}

// reaping is the transaction that deletes a container or TTL node, unless it has a child by then.
func reaping(path string) *Entry {
	return &Entry{Request: tree.Request{Edit: func(x *tree.Txn) proto.Code { return x.Reap(path) }}}
}
