package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
)

// Read is one read of a [MultiRead]: of a node's data and stat, or, with Children, of the names of its children.
type Read struct {
	Path     string
	Children bool
}

// ReadResult is what one [Read] of a [MultiRead] has found. If Err is not nil, the others are empty.
type ReadResult struct {
	Data     []byte
	Stat     *zk.Stat // nil with Children: the servers do not send it
	Children []string // in no order
	Err      error    // such as zk.ErrNoNode and zk.ErrNoAuth; an *OpError with the path of the Read
}

// MultiRead does all reads in one request, and returns a result for each, in the order of reads. They need not be of one
// moment: another client's transaction may come in between. One that fails does not fail the others. It is ZooKeeper's multi
// with Op.getData and Op.getChildren.
//
// The error is [framework.ErrUnimplemented] if the server cannot: ZooKeeper before 3.6, and a ClickHouse Keeper, which is not
// asked. No reads are [framework.ErrBadArgument].
func MultiRead(ctx context.Context, client *framework.Client, reads ...Read) ([]ReadResult, error) {
	const op = "multiRead"
	if len(reads) == 0 {
		return nil, opError(op, "", fmt.Errorf("%w: no reads", framework.ErrBadArgument))
	}
	sent := make([]proto.MultiOp, len(reads))
	for i, r := range reads {
		if err := framework.ValidatePath(r.Path); err != nil {
			return nil, opError(op, r.Path, err)
		}
		sent[i] = proto.MultiOp{Op: r.op(), Body: &proto.ReadRequest{Path: engine.Of(client).Real(r.Path)}}
	}
	return do(ctx, client, op, reads[0].Path, func(l *engine.Connection) ([]ReadResult, error) {
		found, err := engine.Call(ctx, l, engine.AskMulti(proto.OpMultiRead, sent))
		if err != nil {
			return nil, err
		}
		return readResults(reads, found)
	})
}

func (r Read) op() proto.Op {
	if r.Children {
		return proto.OpGetChildren
	}
	return proto.OpGetData
}

// readResults are the results as the caller gets them.
func readResults(reads []Read, found []proto.MultiResult) ([]ReadResult, error) {
	if len(found) != len(reads) {
		return nil, fmt.Errorf("%w: %d results of %d reads", proto.ErrMalformed, len(found), len(reads))
	}
	results := make([]ReadResult, len(reads))
	for i, f := range found {
		name := "get"
		if reads[i].Children {
			name = "children"
		}
		err := engine.ReadFailure(f, reads[i].op())
		switch {
		case errors.Is(err, proto.ErrMalformed):
			return nil, err
		case err != nil:
			results[i].Err = opError(name, reads[i].Path, err)
		case reads[i].Children:
			results[i].Children = f.Names
		default:
			results[i].Data, results[i].Stat = f.Data, (*zk.Stat)(&found[i].Stat)
		}
	}
	return results, nil
}
