package zktest

import (
	"fmt"
	"strings"
	"time"
)

// Op is the kind of a request.
type Op int32

// The kinds of requests, with the numbers of the protocol.
const (
	OpCreate            Op = 1
	OpDelete            Op = 2
	OpExists            Op = 3
	OpGetData           Op = 4
	OpSetData           Op = 5
	OpGetACL            Op = 6
	OpSetACL            Op = 7
	OpGetChildren       Op = 8
	OpSync              Op = 9
	OpPing              Op = 11
	OpGetChildren2      Op = 12
	OpCheck             Op = 13 // in a multi
	OpMulti             Op = 14
	OpCreate2           Op = 15
	OpReconfig          Op = 16
	OpCheckWatches      Op = 17
	OpRemoveWatches     Op = 18
	OpCreateContainer   Op = 19
	OpCreateTTL         Op = 21
	OpMultiRead         Op = 22
	OpAuth              Op = 100
	OpSetWatches        Op = 101
	OpGetEphemerals     Op = 103
	OpGetChildrenNumber Op = 104
	OpSetWatches2       Op = 105
	OpAddWatch          Op = 106
	OpWhoAmI            Op = 107
	OpConnect           Op = -10 // the handshake that begins a session, or goes on with one
	OpCloseSession      Op = -11

	opDeleteContainer Op = 20 // servers send it to themselves, in a form of their own
	opError           Op = -1 // in the results of a multi
)

var opNames = map[Op]string{
	OpCreate: "create", OpDelete: "delete", OpExists: "exists", OpGetData: "getData", OpSetData: "setData",
	OpGetACL: "getACL", OpSetACL: "setACL", OpGetChildren: "getChildren", OpSync: "sync", OpPing: "ping",
	OpGetChildren2: "getChildren2", OpCheck: "check", OpMulti: "multi", OpCreate2: "create2", OpReconfig: "reconfig",
	OpCheckWatches: "checkWatches", OpRemoveWatches: "removeWatches", OpCreateContainer: "createContainer",
	OpCreateTTL: "createTTL", OpMultiRead: "multiRead", OpAuth: "auth", OpSetWatches: "setWatches",
	OpGetEphemerals: "getEphemerals", OpGetChildrenNumber: "getAllChildrenNumber", OpSetWatches2: "setWatches2",
	OpAddWatch: "addWatch", OpWhoAmI: "whoAmI", OpConnect: "connect", OpCloseSession: "closeSession",
}

// String is the name of the protocol's documentation, such as "getChildren2".
func (o Op) String() string {
	if name, found := opNames[o]; found {
		return name
	}
	return fmt.Sprintf("op %d", int32(o))
}

// creates reports whether a request makes a node.
func (o Op) creates() bool {
	switch o {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		return true
	}
	return false
}

// housekeeping is what clients send by themselves, at times that nobody can predict.
func (o Op) housekeeping() bool {
	switch o {
	case OpPing, OpAuth, OpSetWatches, OpSetWatches2, OpConnect, OpCloseSession:
		return true
	}
	return false
}

// writes reports whether a request is a transaction, which uses up a zxid even if it fails.
func (o Op) writes() bool {
	switch o {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpSetACL, OpCheck, OpMulti, OpReconfig, opDeleteContainer:
		return true
	}
	return false
}

// Mode says what kind of node a create makes, with the numbers of the protocol.
type Mode int32

// The kinds of nodes.
const (
	ModePersistent              Mode = 0
	ModeEphemeral               Mode = 1
	ModePersistentSequential    Mode = 2
	ModeEphemeralSequential     Mode = 3
	ModeContainer               Mode = 4
	ModePersistentTTL           Mode = 5
	ModePersistentTTLSequential Mode = 6
)

// Ephemeral reports whether the node is deleted with its session.
func (m Mode) Ephemeral() bool { return m == ModeEphemeral || m == ModeEphemeralSequential }

// Sequential reports whether the server adds a number to the name.
func (m Mode) Sequential() bool {
	return m == ModePersistentSequential || m == ModeEphemeralSequential || m == ModePersistentTTLSequential
}

func (m Mode) valid() bool { return m >= ModePersistent && m <= ModePersistentTTLSequential }
func (m Mode) ttl() bool   { return m == ModePersistentTTL || m == ModePersistentTTLSequential }

// String is the mode in words, such as "ephemeral+sequential".
func (m Mode) String() string {
	switch m {
	case ModePersistent:
		return "persistent"
	case ModeEphemeral:
		return "ephemeral"
	case ModePersistentSequential:
		return "sequential"
	case ModeEphemeralSequential:
		return "ephemeral+sequential"
	case ModeContainer:
		return "container"
	case ModePersistentTTL:
		return "ttl"
	case ModePersistentTTLSequential:
		return "ttl+sequential"
	}
	return fmt.Sprintf("mode %d", int32(m))
}

// Request is what a [Match] looks at and a trace shows.
type Request struct {
	Session int64
	Op      Op
	Path    string        // empty for requests that have none; of a multi, that of its first operation
	Data    []byte        // of a create or setData; not to be changed
	Watch   bool          // it asks for a watch; a multi gets none
	Mode    Mode          // of a create
	TTL     time.Duration // of a create with a TTL
	Parts   []Request     // of a multi

	// named is set by OnOp when it picks the request: only who asks for
	// housekeeping by name gets it.
	named *bool
}

// String shows the request in one line, such as "getData+watch /a" or
// "create /l/n- ephemeral+sequential".
func (r Request) String() string {
	var b strings.Builder
	b.WriteString(r.Op.String())
	if r.Watch {
		b.WriteString("+watch")
	}
	if r.Op == OpMulti || r.Op == OpMultiRead {
		fmt.Fprintf(&b, " %v", r.Parts)
		return b.String()
	}
	if r.Path != "" {
		b.WriteString(" " + r.Path)
	}
	if r.Op.creates() && r.Mode != ModePersistent {
		b.WriteString(" " + r.Mode.String())
	}
	return b.String()
}

// describe takes the body of a request apart as far as it can be understood. Whether it is
// well-formed is found out when it is carried out.
func describe(session int64, op Op, body []byte) Request {
	r := reader{buf: body}
	return describePart(session, op, &r)
}

func describePart(session int64, op Op, r *reader) Request {
	q := Request{Session: session, Op: op}
	switch op {
	case OpPing, OpAuth, OpCloseSession, OpSetWatches, OpSetWatches2, OpReconfig, OpWhoAmI:
	case OpMulti, OpMultiRead:
		for r.err == nil {
			part, done := Op(r.int32()), r.bool()
			r.int32()
			if done || r.err != nil {
				break
			}
			q.Parts = append(q.Parts, describePart(session, part, r))
		}
		if len(q.Parts) > 0 {
			q.Path = q.Parts[0].Path
		}
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		q.Path, q.Data = r.string(), r.bytes()
		r.acls()
		q.Mode = Mode(r.int32())
		if op == OpCreateTTL {
			q.TTL = time.Duration(r.int64()) * time.Millisecond
		}
	case OpSetData:
		q.Path, q.Data = r.string(), r.bytes()
		r.int32()
	case OpSetACL:
		q.Path = r.string()
		r.acls()
		r.int32()
	case OpDelete, OpCheck:
		q.Path = r.string()
		r.int32()
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		q.Path, q.Watch = r.string(), r.bool()
	case OpAddWatch:
		q.Path, q.Watch = r.string(), true
	default:
		q.Path = r.string()
	}
	return q
}
