package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

// Multi carries out all operations or none, in one transaction: *zk.CreateRequest (without an Acl it gets that
// of the client's [ACLProvider]), *zk.SetDataRequest, *zk.DeleteRequest and *zk.CheckVersionRequest. A Version
// of -1 is any; 0 is not. The requests are not changed. On failure the error wraps a [*MultiError] for the first
// operation that failed, and its path is that operation's. Each response has its own error, and in String the
// path of its node. No operations, others than these, and containers and TTL nodes are [ErrBadArgument]. It is
// Curator's transaction.
func (c *Client) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	if len(ops) == 0 {
		return nil, opError("multi", "", fmt.Errorf("%w: no operations", ErrBadArgument))
	}
	q, err := c.askMulti(ops)
	if err != nil {
		return nil, err
	}
	_, first := opAndPath(ops[0])
	frame := q.frame
	var results []proto.MultiResult
	err = c.core.do(ctx, "multi", first, func(l *link) error {
		q.frame = slices.Clone(frame) // a frame belongs to the connection once it is sent
		var err error
		if results, err = ask(ctx, l, q); err != nil {
			return err
		}
		return checkMulti(ops, results)
	})
	var failed *MultiError
	if errors.As(err, &failed) {
		first = failed.Path
	}
	return c.responses(ops, results), opError("multi", first, err)
}

// askMulti is the request for ops, which have the caller's paths.
func (c *Client) askMulti(ops []any) (question[[]proto.MultiResult], error) {
	q := question[[]proto.MultiResult]{op: proto.OpMulti, parse: func(d *proto.Decoder) []proto.MultiResult {
		var r proto.MultiResponse
		r.Decode(d)
		return r.Results
	}}
	real := make([]proto.MultiOp, len(ops))
	for i, op := range ops {
		path, served, err := c.multiOp(op)
		if err != nil {
			return q, opError("multi", path, err)
		}
		real[i] = served
	}
	request := proto.MultiRequest{Ops: real}
	q.frame = request.Append(conn.Begin(64 * len(real)))
	return q, nil
}

// checkMulti returns why a Multi that was answered was not carried out, or nil.
func checkMulti(ops []any, results []proto.MultiResult) error {
	if len(results) != len(ops) {
		return doubtful{fmt.Errorf("%w: %d results of %d operations", proto.ErrMalformed, len(results), len(ops))}
	}
	return firstFailure(ops, results)
}

// MultiError says which operation of a Multi made it fail. Err is what ZooKeeper said of it, so
// errors.Is(err, zk.ErrNodeExists) works.
type MultiError struct {
	Index int    // of the operation, counted from 0
	Op    string // "create", "set", "delete", "check"
	Path  string // as the caller wrote it
	Err   error
}

func (e *MultiError) Error() string {
	return fmt.Sprintf("operation %d, %s %s: %v", e.Index, e.Op, e.Path, e.Err)
}

func (e *MultiError) Unwrap() error { return e.Err }

// firstFailure returns why a Multi was not carried out, or nil. The others of its operations have no
// failure of their own, or are said to be inconsistent with the one that has.
func firstFailure(ops []any, results []proto.MultiResult) error {
	for _, inconsistent := range []bool{false, true} {
		for i, r := range results {
			if r.Op == proto.OpError && r.Code != proto.OK && (inconsistent || r.Code != proto.RuntimeInconsistency) {
				op, path := opAndPath(ops[i])
				return &MultiError{i, op, path, conn.CodeError(r.Code)}
			}
		}
	}
	return nil
}

// responses are the results as the caller gets them.
func (c *Client) responses(ops []any, results []proto.MultiResult) []zk.MultiResponse {
	if results == nil || len(results) != len(ops) {
		return nil
	}
	responses := make([]zk.MultiResponse, len(results))
	for i, r := range results {
		op, path := opAndPath(ops[i])
		if r.Op == proto.OpError && r.Code != proto.OK {
			responses[i].Error = opError(op, path, conn.CodeError(r.Code))
		}
		if r.Path != "" {
			path = c.unreal(r.Path)
		}
		responses[i].String = path
		if r.Op == proto.OpSetData {
			responses[i].Stat = (*zk.Stat)(&results[i].Stat)
		}
	}
	return responses
}

func opAndPath(op any) (name, path string) {
	switch op := op.(type) {
	case *zk.CreateRequest:
		return "create", op.Path
	case *zk.SetDataRequest:
		return "set", op.Path
	case *zk.DeleteRequest:
		return "delete", op.Path
	case *zk.CheckVersionRequest:
		return "check", op.Path
	}
	return "", ""
}

// multiOp returns an operation of a Multi as the server shall see it.
func (c *Client) multiOp(op any) (path string, real proto.MultiOp, err error) {
	var none proto.MultiOp
	switch op := op.(type) {
	case *zk.CreateRequest:
		if op == nil {
			break
		}
		switch op.Flags {
		case zk.FlagPersistent, zk.FlagEphemeral, zk.FlagSequence, zk.FlagEphemeralSequential:
		default:
			return op.Path, none, fmt.Errorf("%w: create flags %d in a multi", ErrBadArgument, op.Flags)
		}
		r := proto.CreateRequest{Path: c.realNew(op.Path), Data: op.Data, ACL: protoACL(op.Acl), Flags: op.Flags}
		if op.Acl == nil {
			r.ACL = protoACL(c.core.acl(r.Path))
		}
		return op.Path, proto.MultiOp{Op: proto.OpCreate, Body: &r}, ValidatePath(op.Path)
	case *zk.SetDataRequest:
		if op == nil {
			break
		}
		r := proto.SetDataRequest{Path: c.real(op.Path), Data: op.Data, Version: op.Version}
		return op.Path, proto.MultiOp{Op: proto.OpSetData, Body: &r}, ValidatePath(op.Path)
	case *zk.DeleteRequest:
		if op == nil {
			break
		}
		r := proto.VersionRequest{Path: c.real(op.Path), Version: op.Version}
		return op.Path, proto.MultiOp{Op: proto.OpDelete, Body: &r}, ValidatePath(op.Path)
	case *zk.CheckVersionRequest:
		if op == nil {
			break
		}
		r := proto.VersionRequest{Path: c.real(op.Path), Version: op.Version}
		return op.Path, proto.MultiOp{Op: proto.OpCheck, Body: &r}, ValidatePath(op.Path)
	}
	return "", none, fmt.Errorf("%w: %T in a multi", ErrBadArgument, op)
}
