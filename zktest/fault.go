package zktest

import (
	"fmt"

	"github.com/gocurator/curator/zktest/internal/wire"
)

// Fault is a kind of failure of a request.
type Fault int

const (
	// FailBefore cuts the connection and does not apply the request. The client sees a lost
	// connection.
	FailBefore Fault = iota + 1

	// LoseReply applies the request and cuts the connection before the reply. The client sees a
	// lost connection and cannot distinguish it from FailBefore.
	LoseReply

	// ExpireBefore expires the session and does not apply the request. The client sees a lost
	// connection and, when it reconnects, an expired session.
	ExpireBefore

	// ExpireAfter applies the request and expires the session before the reply. The client sees a
	// lost connection and, when it reconnects, an expired session.
	ExpireAfter

	// LoseWakeup applies the request and withholds the reply, and all later output of the
	// connection, until the server receives another request. A handshake or a ping of any client
	// suffices. The client sees a slow reply.
	//
	// ZooKeeper 3.6.0 to 3.8.0 occasionally withholds replies like that (ZOOKEEPER-4537). It also
	// sends them when another client's write is committed.
	LoseWakeup
)

// String returns the fault in words, such as "lose reply".
func (f Fault) String() string {
	switch f {
	case FailBefore:
		return "fail before"
	case LoseReply:
		return "lose reply"
	case ExpireBefore:
		return "expire before"
	case ExpireAfter:
		return "expire after"
	case LoseWakeup:
		return "lose wake-up"
	}
	return fmt.Sprintf("fault %d", int(f))
}

// fates says what each fault does. LoseWakeup holds the answer back.
var fates = map[Fault]wire.Fate{
	FailBefore:   {Skip: true, Mute: true},
	LoseReply:    {Mute: true},
	ExpireBefore: {Skip: true, Expire: true, Mute: true},
	ExpireAfter:  {Expire: true, Mute: true},
}

// Injection is a fault for one request, from [Server.Inject]. All methods are safe for concurrent
// use.
type Injection struct {
	fault   Fault
	match   Match
	left    int // guarded by the server's lock
	met     chan struct{}
	request Request // set before met is closed
}

// Met reports whether a request has met the fault.
func (i *Injection) Met() bool {
	select {
	case <-i.met:
		return true
	default:
		return false
	}
}

// Done returns a channel that is closed when a request has met the fault.
func (i *Injection) Done() <-chan struct{} { return i.met }

// String returns the fault and the request that met it, such as "lose reply: create /a". Until a
// request meets the fault, String describes the requests that can meet it.
func (i *Injection) String() string {
	if i.Met() {
		return i.fault.String() + ": " + i.request.String()
	}
	return i.match.fault(i.fault.String()) + ": not met"
}
