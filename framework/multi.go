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

// Multi carries out all operations or none, in one transaction: *zk.CreateRequest and *zk.CreateTTLRequest (without an Acl
// they get that of the client's [ACLProvider]), *zk.SetDataRequest, *zk.DeleteRequest and *zk.CheckVersionRequest. A Version
// of -1 is any; 0 is not. The requests are not changed. On failure the error wraps a [*MultiError] for the first
// operation that failed, and its path is that operation's. Each response has its own error, and in String the
// path of its node. No operations, and others than these, are [ErrBadArgument]. It is Curator's transaction.
//
// The Flags of a *zk.CreateRequest may be zk.FlagContainer, those of a *zk.CreateTTLRequest are zk.FlagTTL or
// zk.FlagPersistentSequentialWithTTL. The responses to both have a Stat. A server that is not told to allow TTL nodes
// (extendedTypesEnabled) fails them with [ErrUnimplemented], and so does the client for a ClickHouse Keeper, which is not
// asked. ZooKeeper before 3.5 does not understand a Multi with either: "marshalling error (-5)".
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
		if err := c.core.firstUnknown(l, ops); err != nil {
			return err
		}
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
	q := question[[]proto.MultiResult]{op: proto.OpMulti, parse: parseMulti}
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

func parseMulti(d *proto.Decoder) []proto.MultiResult {
	var r proto.MultiResponse
	r.Decode(d)
	return r.Results
}

// firstUnknown is the failure of the first create of a kind that the server does not know, or nil.
func (c *core) firstUnknown(l *link, ops []any) error {
	for i, op := range ops {
		kind := proto.OpCreate
		switch op := op.(type) {
		case *zk.CreateRequest:
			if op.Flags == zk.FlagContainer {
				kind = proto.OpCreateContainer
			}
		case *zk.CreateTTLRequest:
			kind = proto.OpCreateTTL
		}
		if kind != proto.OpCreate && c.unknownOps.has(l, kind) {
			name, path := opAndPath(op)
			return &MultiError{i, name, path, unimplemented(kind)}
		}
	}
	return nil
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
		switch r.Op {
		case proto.OpSetData, proto.OpCreate2, proto.OpCreateContainer, proto.OpCreateTTL:
			responses[i].Stat = (*zk.Stat)(&results[i].Stat)
		}
	}
	return responses
}

func opAndPath(op any) (name, path string) {
	switch op := op.(type) {
	case *zk.CreateRequest:
		return "create", op.Path
	case *zk.CreateTTLRequest:
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
		kind := proto.OpCreate
		switch op.Flags {
		case zk.FlagPersistent, zk.FlagEphemeral, zk.FlagSequence, zk.FlagEphemeralSequential:
		case zk.FlagContainer:
			kind = proto.OpCreateContainer
		default:
			return op.Path, none, fmt.Errorf("%w: create flags %d in a multi", ErrBadArgument, op.Flags)
		}
		return op.Path, c.multiCreate(kind, op, 0), validateNew(op.Path, op.Flags&zk.FlagSequence != 0)
	case *zk.CreateTTLRequest:
		if op == nil {
			break
		}
		if op.Flags != zk.FlagTTL && op.Flags != zk.FlagPersistentSequentialWithTTL || op.Ttl <= 0 {
			return op.Path, none, fmt.Errorf("%w: create flags %d with a TTL of %d ms in a multi", ErrBadArgument, op.Flags, op.Ttl)
		}
		r := &zk.CreateRequest{Path: op.Path, Data: op.Data, Acl: op.Acl, Flags: op.Flags}
		return op.Path, c.multiCreate(proto.OpCreateTTL, r, op.Ttl), validateNew(op.Path, op.Flags == zk.FlagPersistentSequentialWithTTL)
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

// multiCreate is a create of a Multi as the server shall see it.
func (c *Client) multiCreate(kind proto.Op, op *zk.CreateRequest, ttl int64) proto.MultiOp {
	r := &proto.CreateRequest{Path: c.realNew(op.Path), Data: op.Data, ACL: protoACL(op.Acl), Flags: op.Flags, TTL: ttl}
	r.WithTTL = kind == proto.OpCreateTTL
	if op.Acl == nil {
		r.ACL = protoACL(c.core.acl(r.Path))
	}
	return proto.MultiOp{Op: kind, Body: r}
}
