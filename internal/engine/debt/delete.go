package debt

import (
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/verdict"
)

// Companion is a persistent node of a unique name that is deleted together with an ephemeral one,
// which must exist when the companion is created. The zero value stands for no companion.
type Companion struct {
	Path string
	Sure bool // known to be created; otherwise its create may still be applied
}

// deletion is the requests that delete a node and its companion, one after the other on one
// connection. They may be repeated. A companion that is known to be created stays if the node is
// missing: the error is zk.ErrNoNode.
type deletion struct {
	path string
	with Companion
	conn *wire.Conn
	last bool // Close sends it, after Drain: see package conn
	done func(err error)
}

// ask sends a request of a deletion.
func ask[T any](d *deletion, q wire.Request[T], done func(T, error)) {
	q.Last, q.Done = d.last, done
	wire.Post(d.conn, q)
}

func (d *deletion) begin() {
	switch {
	case d.with == (Companion{}):
		ask(d, wire.AskDelete(d.path, -1), func(_ wire.None, err error) { d.done(err) })
	case d.with.Sure:
		d.both()
	default:
		d.alone()
	}
}

// both deletes the node and its companion, or neither. The events are in the order of the
// operations: none shows the companion without its node.
func (d *deletion) both() {
	ops := make([]proto.MultiOp, 2)
	for i, path := range []string{d.with.Path, d.path} {
		ops[i] = proto.MultiOp{Op: proto.OpDelete, Body: &proto.VersionRequest{Path: path, Version: -1}}
	}
	ask(d, wire.AskMulti(proto.OpMulti, ops), func(results []proto.MultiResult, err error) {
		failed := -1
		if err == nil {
			failed, err = wire.MultiFailure(results, len(ops))
		}
		if failed == 0 && !verdict.MayPass(err) {
			d.alone() // the companion is missing, or has children
			return
		}
		d.done(err)
	})
}

// alone deletes the node without its companion.
func (d *deletion) alone() {
	ask(d, wire.AskDelete(d.path, -1), func(_ wire.None, err error) {
		if d.with.Sure || !isGone(err) {
			d.done(err)
			return
		}
		d.companion(err) // it is not created any more
	})
}

// companion deletes the companion. deleted is the reply to the deletion of the node.
func (d *deletion) companion(deleted error) {
	ask(d, wire.AskDelete(d.with.Path, -1), func(_ wire.None, err error) {
		if verdict.MayPass(err) {
			deleted = err
		}
		d.done(deleted)
	})
}
