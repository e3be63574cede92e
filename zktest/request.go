package zktest

import (
	"fmt"
	"strings"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// Op is the kind of a request. Its value is the number of the protocol.
type Op int32

// The kinds of requests.
const ( // The types are written out so that go doc lists the constants with them.
	OpCreate            Op = Op(proto.OpCreate)
	OpDelete            Op = Op(proto.OpDelete)
	OpExists            Op = Op(proto.OpExists)
	OpGetData           Op = Op(proto.OpGetData)
	OpSetData           Op = Op(proto.OpSetData)
	OpGetACL            Op = Op(proto.OpGetACL)
	OpSetACL            Op = Op(proto.OpSetACL)
	OpGetChildren       Op = Op(proto.OpGetChildren)
	OpSync              Op = Op(proto.OpSync)
	OpPing              Op = Op(proto.OpPing)
	OpGetChildren2      Op = Op(proto.OpGetChildren2)
	OpCheck             Op = Op(proto.OpCheck) // in a multi
	OpMulti             Op = Op(proto.OpMulti)
	OpCreate2           Op = Op(proto.OpCreate2)
	OpReconfig          Op = Op(proto.OpReconfig)
	OpCheckWatches      Op = Op(proto.OpCheckWatches)
	OpRemoveWatches     Op = Op(proto.OpRemoveWatches)
	OpCreateContainer   Op = Op(proto.OpCreateContainer)
	OpCreateTTL         Op = Op(proto.OpCreateTTL)
	OpMultiRead         Op = Op(proto.OpMultiRead)
	OpAuth              Op = Op(proto.OpAuth)
	OpSetWatches        Op = Op(proto.OpSetWatches)
	OpSASL              Op = Op(proto.OpSASL)
	OpGetEphemerals     Op = Op(proto.OpGetEphemerals)
	OpGetChildrenNumber Op = Op(proto.OpGetChildrenNumber)
	OpSetWatches2       Op = Op(proto.OpSetWatches2)
	OpAddWatch          Op = Op(proto.OpAddWatch)
	OpWhoAmI            Op = Op(proto.OpWhoAmI)
	OpConnect           Op = Op(proto.OpConnect) // the handshake that begins a session, or goes on with one
	OpCloseSession      Op = Op(proto.OpCloseSession)
)

// String is the name of the protocol's documentation, such as "getChildren2".
func (o Op) String() string { return proto.Op(o).String() }

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
	case OpPing, OpAuth, OpSASL, OpSetWatches, OpSetWatches2, OpConnect, OpCloseSession:
		return true
	}
	return false
}

// writes reports whether a request is a transaction, which uses up a zxid even if it fails.
func (o Op) writes() bool {
	switch o {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpSetACL, OpCheck, OpMulti, OpReconfig, Op(proto.OpDeleteContainer):
		return true
	}
	return false
}

// Mode says what kind of node a create makes. Its value is the number of the protocol.
type Mode int32

// The kinds of nodes.
const (
	ModePersistent              Mode = Mode(proto.FlagPersistent)
	ModeEphemeral               Mode = Mode(proto.FlagEphemeral)
	ModePersistentSequential    Mode = Mode(proto.FlagSequential)
	ModeEphemeralSequential     Mode = Mode(proto.FlagEphemeralSequential)
	ModeContainer               Mode = Mode(proto.FlagContainer)
	ModePersistentTTL           Mode = Mode(proto.FlagTTL)
	ModePersistentTTLSequential Mode = Mode(proto.FlagPersistentSequentialTTL)
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

// malformed is the body of a request that could not be decoded, as far as it was understood; nil if its kind is not known.
type malformed struct{ proto.Record }

// decode takes a request apart. What is malformed is described as far as it could be understood.
func decode(session int64, op Op, d *proto.Decoder) (Request, proto.Record) {
	body := proto.NewRequest(proto.Op(op))
	if body != nil {
		body.Decode(d)
	}
	request := describe(session, op, body)
	if d.Err() != nil {
		return request, malformed{body}
	}
	return request, body
}

func describe(session int64, op Op, body proto.Record) Request {
	q := Request{Session: session, Op: op}
	switch b := body.(type) {
	case *proto.PathRequest:
		q.Path = b.Path
	case *proto.ReadRequest:
		q.Path, q.Watch = b.Path, b.Watch
	case *proto.CreateRequest:
		q.Path, q.Data, q.Mode, q.TTL = b.Path, b.Data, Mode(b.Flags), time.Duration(b.TTL)*time.Millisecond
	case *proto.VersionRequest:
		q.Path = b.Path
	case *proto.SetDataRequest:
		q.Path, q.Data = b.Path, b.Data
	case *proto.SetACLRequest:
		q.Path = b.Path
	case *proto.WatchRequest:
		q.Path, q.Watch = b.Path, op == OpAddWatch
	case *proto.MultiRequest:
		for _, part := range b.Ops {
			q.Parts = append(q.Parts, describe(session, Op(part.Op), part.Body))
		}
		if len(q.Parts) > 0 {
			q.Path = q.Parts[0].Path
		}
	}
	return q
}
