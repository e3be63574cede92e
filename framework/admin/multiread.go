package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
)

// Read is one read of a [MultiRead]. It reads a node's data and stat. If Children is set, it reads
// the names of the node's children instead.
type Read struct {
	Path     string
	Children bool
}

// ReadResult is the result of one [Read]. If Err is not nil, the other fields are empty.
type ReadResult struct {
	Data     []byte
	Stat     *zk.Stat // nil if Children was set, because the servers do not send a stat
	Children []string // unsorted
	// Err is an *OpError with the path of the Read. It wraps, for example, zk.ErrNoNode or
	// zk.ErrNoAuth.
	Err error
}

// MultiRead sends all reads in one request, and returns their results in order. A failed read does
// not fail the others: see [ReadResult]. Another client's write may be applied between two reads.
//
// It is ZooKeeper's multi with Op.getData and Op.getChildren, since 3.6.
//
// Errors are
//   - [framework.ErrBadArgument] if reads is empty;
//   - [framework.ErrUnimplemented] if the server is older than ZooKeeper 3.6, or a ClickHouse
//     Keeper;
//   - [framework.ErrBadPath] if a path is invalid;
//   - [framework.ErrTooLong] if the request is longer than [framework.WithMaxRequest] allows;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired].
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
		found, err := wire.Call(ctx, l.Conn, wire.AskMulti(proto.OpMultiRead, sent))
		if err != nil {
			return nil, err
		}
		return readResults(client, reads, found)
	})
}

func (r Read) op() proto.Op {
	if r.Children {
		return proto.OpGetChildren
	}
	return proto.OpGetData
}

// readResults converts the results of the request.
func readResults(client *framework.Client, reads []Read, found []proto.MultiResult) ([]ReadResult, error) {
	if len(found) != len(reads) {
		return nil, fmt.Errorf("%w: %d results for %d reads", proto.ErrMalformed, len(found), len(reads))
	}
	results := make([]ReadResult, len(reads))
	for i, f := range found {
		name := "get"
		if reads[i].Children {
			name = "children"
		}
		err := wire.ReadFailure(f, reads[i].op())
		switch {
		case errors.Is(err, proto.ErrMalformed):
			return nil, err
		case err != nil:
			results[i].Err = opError(name, reads[i].Path, err)
		case reads[i].Children:
			results[i].Children = f.Names
		default:
			data, err := engine.Of(client).Decode(f.Data)
			if err != nil {
				results[i].Err = opError(name, reads[i].Path, err)
				continue
			}
			results[i].Data, results[i].Stat = data, (*zk.Stat)(&found[i].Stat)
		}
	}
	return results, nil
}
