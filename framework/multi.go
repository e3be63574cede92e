package framework

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
)

// Multi carries out all operations or none, in one transaction. It is Curator's transaction.
// Operations are the results of [CreateOp], [SetOp], [DeleteOp] and [CheckOp], and the guard of a
// hold:
//
//	client.Multi(ctx, hold.Guard(), framework.SetOp("/a", data, framework.IfVersion(3)))
//
// Other pointers to go-zookeeper's requests are operations too. Their zero Version matches only
// version 0, a Version of -1 every version. A *zk.CreateTTLRequest has the flags zk.FlagTTL or
// zk.FlagPersistentSequentialWithTTL.
//
// A create without an ACL uses the ACL of [WithACLProvider]. nil is empty data. Each response
// contains the error of its operation, and the path of its node in String. Responses to creates of
// containers and TTL nodes also contain a Stat.
//
// Errors are
//   - [*MultiError] if an operation fails. It describes the first failed operation and wraps the
//     server's error, such as zk.ErrBadVersion;
//   - [ErrUnimplemented], in a MultiError, if the server does not support an operation;
//   - [ErrBadArgument] if there are no operations, or one has an invalid option or another type;
//   - [ErrBadPath] if a path is invalid;
//   - [ErrTooLong] if the request is longer than [WithMaxRequest] allows;
//   - [ErrTooLarge] if a client [WithCompression] is given more data than [WithMaxDecompressed]
//     allows;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired].
//
// If Multi fails after a reply was lost, [retry.Unknown] reports true for the error, and the
// operations may have been carried out.
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
	var creates []string
	for _, s := range steps {
		if r, ok := s.real.Body.(*proto.CreateRequest); ok {
			creates = append(creates, r.Path)
		}
	}
	if err := c.engine.AwaitPlace(ctx, "multi", path, creates...); err != nil {
		return nil, opError("multi", path, err)
	}
	err := c.engine.Do(ctx, "multi", path, func(l *engine.Connection) error {
		for i, s := range steps {
			if err := l.Supports(s.real.Op); err != nil {
				return failed(i, err)
			}
		}
		var err error
		if results, err = wire.Call(ctx, l.Conn, wire.AskMulti(proto.OpMulti, sent)); err != nil {
			return err
		}
		i, err := wire.MultiFailure(results, len(ops))
		if i >= 0 {
			return failed(i, err)
		}
		return err
	})
	return c.responses(steps, results), opError("multi", path, err)
}

// MultiError reports which operation of a [Client.Multi] failed. It wraps the server's error.
type MultiError struct {
	Index int    // index of the operation, from 0
	Op    string // "create", "set", "delete", "check"
	Path  string // path, as the caller wrote it
	Err   error
}

func (e *MultiError) Error() string {
	return fmt.Sprintf("operation %d, %v", e.Index, &OpError{Op: e.Op, Path: e.Path, Err: e.Err})
}

func (e *MultiError) Unwrap() error { return e.Err }

// responses returns the results in go-zookeeper's type, with paths as the caller wrote them.
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

// step is an operation of a Multi: its name and path for the caller, and the server's request.
type step struct {
	name, path string
	real       proto.MultiOp
}

func (c *Client) step(op any) (step, error) {
	if v := reflect.ValueOf(op); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return step{}, fmt.Errorf("%w: a nil operation in a multi", ErrBadArgument)
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
		data, err := c.engine.Encode(orEmpty(op.Data))
		r := proto.SetDataRequest{Path: c.engine.Real(op.Path), Data: data, Version: op.Version}
		return step{"set", op.Path, proto.MultiOp{Op: proto.OpSetData, Body: &r}}, cmp.Or(ValidatePath(op.Path), checkVersion(op.Version), err)
	case *zk.DeleteRequest:
		r := proto.VersionRequest{Path: c.engine.Real(op.Path), Version: op.Version}
		return step{"delete", op.Path, proto.MultiOp{Op: proto.OpDelete, Body: &r}}, cmp.Or(ValidatePath(op.Path), checkVersion(op.Version))
	case *zk.CheckVersionRequest:
		r := proto.VersionRequest{Path: c.engine.Real(op.Path), Version: op.Version}
		return step{"check", op.Path, proto.MultiOp{Op: proto.OpCheck, Body: &r}}, cmp.Or(ValidatePath(op.Path), checkVersion(op.Version))
	}
	switch op.(type) {
	case zk.CreateRequest, zk.CreateTTLRequest, zk.SetDataRequest, zk.DeleteRequest, zk.CheckVersionRequest:
		return step{}, fmt.Errorf("%w: %T in a multi, must be a pointer", ErrBadArgument, op)
	}
	return step{}, fmt.Errorf("%w: unsupported type %T in a multi", ErrBadArgument, op)
}

// checkVersion refuses the version of an operation with invalid options.
func checkVersion(version int32) error {
	if version == badVersion {
		return fmt.Errorf("%w: a nil option, or version %d, which means any version", ErrBadArgument, anyVersion)
	}
	return nil
}

func (c *Client) createStep(kind proto.Op, op *zk.CreateRequest, ttl int64) (step, error) {
	data, err := c.engine.Encode(orEmpty(op.Data))
	r := &proto.CreateRequest{Path: c.engine.RealNew(op.Path), Data: data, ACL: wire.ProtoACL(op.Acl), Flags: op.Flags, TTL: ttl}
	r.WithTTL = kind == proto.OpCreateTTL
	switch {
	case op.Acl == nil:
		r.ACL = wire.ProtoACL(c.engine.ACLAt(r.Path))
	case len(op.Acl) == 0:
		err = errEmptyACL
	}
	return step{"create", op.Path, proto.MultiOp{Op: kind, Body: r}}, cmp.Or(validateNew(op.Path, isSequential(op.Flags)), err)
}
