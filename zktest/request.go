package zktest

import (
	"fmt"
	"strings"
	"time"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// housekeeping are the operations that clients send on their own, at times that cannot be
// predicted.
var housekeeping = []proto.Op{
	proto.OpPing, proto.OpAuth, proto.OpSASL, proto.OpSetWatches, proto.OpSetWatches2, proto.OpConnect, proto.OpCloseSession,
}

// Request is a client's request, for a [Match] or in a trace.
type Request struct {
	Session int64
	Op      string // operation as ZooKeeper documents it, such as "getChildren2", see OnOp
	Path    string // path, or the first part's path for a multi; may be empty
	// Data is the data of a create or setData. It must not be modified.
	Data  []byte
	Watch bool          // whether it sets a watch; false for a multi
	Mode  int32         // mode of a create, numbered as framework.Mode
	TTL   time.Duration // TTL of a create, or 0
	Parts []Request     // operations of a multi

	op proto.Op

	// named is set by OnOp when it picks the request: housekeeping is selected by name only.
	named *bool
}

// String returns the request as one line, such as "getData+watch /a" or "create /l/n-
// ephemeral+sequential".
func (r Request) String() string {
	var b strings.Builder
	b.WriteString(r.Op)
	if r.Watch {
		b.WriteString("+watch")
	}
	if len(r.Parts) > 0 || r.Op == proto.OpMulti.String() || r.Op == proto.OpMultiRead.String() {
		fmt.Fprintf(&b, " %v", r.Parts)
		return b.String()
	}
	if r.Path != "" {
		b.WriteString(" " + r.Path)
	}
	if r.Mode != 0 {
		b.WriteString(" " + tree.Mode(r.Mode).String())
	}
	return b.String()
}

// describe returns a request as a test sees it. If it is malformed, it has what could be
// understood.
func describe(session int64, op proto.Op, body proto.Record) Request {
	q := Request{Session: session, Op: op.String(), op: op}
	switch b := body.(type) {
	case *proto.PathRequest:
		q.Path = b.Path
	case *proto.ReadRequest:
		q.Path, q.Watch = b.Path, b.Watch
	case *proto.CreateRequest:
		q.Path, q.Data, q.Mode, q.TTL = b.Path, b.Data, b.Flags, time.Duration(b.TTL)*time.Millisecond
	case *proto.VersionRequest:
		q.Path = b.Path
	case *proto.SetDataRequest:
		q.Path, q.Data = b.Path, b.Data
	case *proto.SetACLRequest:
		q.Path = b.Path
	case *proto.WatchRequest:
		q.Path, q.Watch = b.Path, op == proto.OpAddWatch
	case *proto.MultiRequest:
		for _, part := range b.Ops {
			q.Parts = append(q.Parts, describe(session, part.Op, part.Body))
		}
		if len(q.Parts) > 0 {
			q.Path = q.Parts[0].Path
		}
	}
	return q
}
