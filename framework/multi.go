package framework

import (
	"context"
	"fmt"
	"reflect"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
)

// Multi carries out all operations or none, in one transaction: *zk.CreateRequest and *zk.CreateTTLRequest (without an Acl
// they get the one of [WithACLProvider]), *zk.SetDataRequest, *zk.DeleteRequest and *zk.CheckVersionRequest. A Version
// of -1 is any; 0 is not. The requests are not changed. On failure the error wraps a [*MultiError] for the first
// operation that failed, and its path is that operation's. Each response has its own error, and in String the
// path of its node. No operations, and others than these, are [ErrBadArgument]. It is Curator's transaction.
//
// The Flags of a *zk.CreateRequest may be zk.FlagContainer, those of a *zk.CreateTTLRequest are zk.FlagTTL or
// zk.FlagPersistentSequentialWithTTL. The responses to both have a Stat. A server that is not configured to allow TTL nodes
// (extendedTypesEnabled) fails them with [ErrUnimplemented], and so does the client for a ClickHouse Keeper, which is not
// asked. ZooKeeper before 3.5 does not understand a Multi with either: "marshalling error (-5)".
func (c *Client) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	if len(ops) == 0 {
		return nil, opError("multi", "", fmt.Errorf("%w: no operations", ErrBadArgument))
	}
	steps := make([]step, len(ops))
	sent := make([]proto.MultiOp, len(ops))
	for i, op := range ops {
		var err error
		if steps[i], err = c.step(op); err != nil {
			return nil, opError("multi", steps[i].path, err)
		}
		sent[i] = steps[i].real
	}
	path := steps[0].path
	failed := func(i int, err error) error {
		path = steps[i].path
		return &MultiError{i, steps[i].name, path, err}
	}
	var results []proto.MultiResult
	err := c.engine.Do(ctx, "multi", path, func(l *engine.Connection) error {
		for i, s := range steps {
			if err := l.Supports(s.real.Op); err != nil {
				return failed(i, err)
			}
		}
		var err error
		if results, err = engine.Call(ctx, l, engine.AskMulti(proto.OpMulti, sent)); err != nil {
			return err
		}
		i, err := engine.MultiFailure(results, len(ops))
		if i >= 0 {
			return failed(i, err)
		}
		return err
	})
	return c.responses(steps, results), opError("multi", path, err)
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

// responses are the results as the caller gets them.
func (c *Client) responses(steps []step, results []proto.MultiResult) []zk.MultiResponse {
	if len(results) != len(steps) {
		return nil
	}
	responses := make([]zk.MultiResponse, len(results))
	for i, r := range results {
		path := steps[i].path
		if r.Op == proto.OpError && r.Code != proto.OK {
			responses[i].Error = opError(steps[i].name, path, conn.CodeError(r.Code))
		}
		if r.Path != "" {
			path = c.engine.Unreal(r.Path)
		}
		responses[i].String = path
		switch r.Op {
		case proto.OpSetData, proto.OpCreate2, proto.OpCreateContainer, proto.OpCreateTTL:
			responses[i].Stat = (*zk.Stat)(&results[i].Stat)
		}
	}
	return responses
}

// step is an operation of a Multi: what the caller calls it, and what the server gets.
type step struct {
	name, path string
	real       proto.MultiOp
}

func (c *Client) step(op any) (step, error) {
	given := op
	if v := reflect.ValueOf(op); v.Kind() != reflect.Pointer || v.IsNil() {
		op = nil
	}
	switch op := op.(type) {
	case *zk.CreateRequest:
		kind := proto.OpCreate
		switch op.Flags {
		case zk.FlagPersistent, zk.FlagEphemeral, zk.FlagSequence, zk.FlagEphemeralSequential:
		case zk.FlagContainer:
			kind = proto.OpCreateContainer
		default:
			return step{path: op.Path}, fmt.Errorf("%w: create flags %d in a multi", ErrBadArgument, op.Flags)
		}
		return c.createStep(kind, op, 0)
	case *zk.CreateTTLRequest:
		if op.Flags != zk.FlagTTL && op.Flags != zk.FlagPersistentSequentialWithTTL || op.Ttl <= 0 {
			return step{path: op.Path}, fmt.Errorf("%w: create flags %d with a TTL of %d ms in a multi", ErrBadArgument, op.Flags, op.Ttl)
		}
		r := &zk.CreateRequest{Path: op.Path, Data: op.Data, Acl: op.Acl, Flags: op.Flags}
		return c.createStep(proto.OpCreateTTL, r, op.Ttl)
	case *zk.SetDataRequest:
		r := proto.SetDataRequest{Path: c.engine.Real(op.Path), Data: op.Data, Version: op.Version}
		return step{"set", op.Path, proto.MultiOp{Op: proto.OpSetData, Body: &r}}, ValidatePath(op.Path)
	case *zk.DeleteRequest:
		r := proto.VersionRequest{Path: c.engine.Real(op.Path), Version: op.Version}
		return step{"delete", op.Path, proto.MultiOp{Op: proto.OpDelete, Body: &r}}, ValidatePath(op.Path)
	case *zk.CheckVersionRequest:
		r := proto.VersionRequest{Path: c.engine.Real(op.Path), Version: op.Version}
		return step{"check", op.Path, proto.MultiOp{Op: proto.OpCheck, Body: &r}}, ValidatePath(op.Path)
	}
	return step{}, fmt.Errorf("%w: %T in a multi", ErrBadArgument, given)
}

func (c *Client) createStep(kind proto.Op, op *zk.CreateRequest, ttl int64) (step, error) {
	r := &proto.CreateRequest{Path: c.engine.RealNew(op.Path), Data: op.Data, ACL: engine.ProtoACL(op.Acl), Flags: op.Flags, TTL: ttl}
	r.WithTTL = kind == proto.OpCreateTTL
	if op.Acl == nil {
		r.ACL = engine.ProtoACL(c.engine.ACLAt(r.Path))
	}
	return step{"create", op.Path, proto.MultiOp{Op: kind, Body: r}}, validateNew(op.Path, isSequential(op.Flags))
}
