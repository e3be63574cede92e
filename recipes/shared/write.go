package shared

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/uuid"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/retry"
)

// change writes data if the node has the version. The error is ErrChanged if it has another one.
func (v *Value[T]) change(ctx context.Context, version Version, data []byte) error {
	var err error
	if version.Exists() {
		err = v.write(ctx, set, version.number, data)
	} else {
		err = v.write(ctx, create, 0, data)
	}
	if retry.Unknown(err) {
		return err
	}
	for _, refused := range []error{zk.ErrBadVersion, zk.ErrNoNode, zk.ErrNodeExists} {
		if errors.Is(err, refused) {
			return ErrChanged
		}
	}
	return err
}

// notWritten is an error of what a write needs before it. A lost reply to that says nothing of the value.
type notWritten struct{ error }

func (n notWritten) Unwrap() error { return n.error }

// Unknown makes [retry.Unknown] false.
func (n notWritten) Unknown() bool { return false }

// action is what a write does.
type action int

const (
	set action = iota + 1
	create
)

// write sets or creates the node, once: see the package comment. If retry.Unknown is not true of the error, nothing was written.
func (v *Value[T]) write(ctx context.Context, what action, number int32, data []byte) error {
	mark := framework.Join(v.path, "write-"+uuid.New())
	var op any = &zk.SetDataRequest{Path: v.path, Data: data, Version: number}
	if what == create {
		op = &zk.CreateRequest{Path: v.path, Data: data}
	}
	for {
		session, err := v.client.Session(ctx)
		if err != nil {
			return err
		}
		in := framework.InSession(ctx, session)
		_, err = v.client.Multi(in, op, &zk.CreateRequest{Path: mark, Data: []byte{}, Flags: zk.FlagEphemeral})
		switch {
		case err == nil:
		case retry.Unknown(err):
			err = v.settle(ctx, session, mark, err)
		case errors.Is(err, framework.ErrSessionLost):
			continue // nothing was sent
		case what == create && errors.Is(err, zk.ErrNoNode):
			// A container is deleted when it is empty, so there is a child until the node is there.
			dir, _ := framework.Split(v.path)
			child, err := v.client.Create(in, framework.Join(dir, "parent"), []byte{},
				framework.As(framework.Ephemeral), framework.Protected(), framework.ContainerParents())
			if err != nil && !errors.Is(err, framework.ErrSessionLost) {
				return notWritten{follow.Bare(err)}
			}
			defer v.deleteSoon(session, child)
			continue
		default:
			return err
		}
		v.deleteSoon(session, mark)
		return err
	}
}

// settle finds out whether the write of a mark was done whose outcome is not known. It returns nil if so; unknown if nobody knows; and
// otherwise why it was refused.
func (v *Value[T]) settle(ctx context.Context, session *framework.Session, mark string, unknown error) error {
	there, _, err := v.client.Exists(framework.InSession(ctx, session), mark)
	lost := errors.Is(err, framework.ErrSessionLost)
	if lost {
		// The servers may not have ended it yet. If there is another session after this, the result is only less certain.
		if err = v.client.CatchUp(ctx); err == nil {
			there, _, err = v.client.Exists(ctx, mark)
		}
	}
	var refused *framework.MultiError // the answer to a repetition
	switch {
	case err == nil && there:
		return nil
	case err == nil && !lost && errors.As(unknown, &refused):
		return refused.Err
	}
	return unknown
}

// deleteSoon deletes an ephemeral node of a session. Its place on the connection is behind what was sent before.
func (v *Value[T]) deleteSoon(session *framework.Session, path string) {
	if path != "" {
		engine.Of(v.client).DeleteSoon(framework.InSession(context.Background(), session), path, func(bool, error) {})
	}
}
