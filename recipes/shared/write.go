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

// notWritten is an error of what a write needs before it. A lost reply to that says nothing of the value.
type notWritten struct{ error }

func (n notWritten) Unwrap() error { return n.error }

// Unknown makes [retry.Unknown] false.
func (n notWritten) Unknown() bool { return false }

// write writes the node once, if its number is the expected one, and returns its version if that is known: see the package comment. The error
// is ErrChanged if the number is another one. If retry.Unknown is not true of an error, nothing was written.
func (v *Value[T]) write(ctx context.Context, expected int64, data []byte) (now Version, err error) {
	mark := framework.Join(v.path, "write-"+uuid.New())
	var op any = &zk.SetDataRequest{Path: v.path, Data: data, Version: int32(expected)}
	if expected == noNode {
		op = &zk.CreateRequest{Path: v.path, Data: data}
	}
	for {
		session, err := v.client.Session(ctx)
		if err != nil {
			return now, err
		}
		in := framework.InSession(ctx, session)
		responses, err := v.client.Multi(in, op, &zk.CreateRequest{Path: mark, Data: []byte{}, Flags: zk.FlagEphemeral})
		switch {
		case err == nil && responses[0].Stat != nil:
			now = versionOf(responses[0].Stat)
		case err == nil:
		case retry.Unknown(err):
			err = v.settle(ctx, session, mark, err)
		case errors.Is(err, framework.ErrSessionLost):
			continue // nothing was sent
		case expected == noNode && errors.Is(err, zk.ErrNoNode):
			// A container is deleted when it is empty, so there is a child until the node is there.
			dir, _ := framework.Split(v.path)
			child, err := v.client.Create(in, framework.Join(dir, "parent"), []byte{},
				framework.As(framework.Ephemeral), framework.Protected(), framework.ContainerParents())
			if err != nil && !errors.Is(err, framework.ErrSessionLost) {
				return now, notWritten{follow.Bare(err)}
			}
			defer v.deleteSoon(session, child)
			continue
		default:
			return now, refused(err)
		}
		v.deleteSoon(session, mark)
		return now, refused(err)
	}
}

// refused is ErrChanged for the answers to a write that expected another state of the node, and err for others.
func refused(err error) error {
	for _, answer := range []error{zk.ErrBadVersion, zk.ErrNoNode, zk.ErrNodeExists} {
		if errors.Is(err, answer) && !retry.Unknown(err) {
			return ErrChanged
		}
	}
	return err
}

// settle finds out whether the write of a mark was done whose outcome is not known. It returns nil if so; unknown if nobody knows; and
// otherwise why it was refused.
func (v *Value[T]) settle(ctx context.Context, session *framework.Session, mark string, unknown error) error {
	there, _, err := v.client.Exists(framework.InSession(ctx, session), mark)
	lost := errors.Is(err, framework.ErrSessionLost)
	if lost {
		// The servers may not have ended it yet. If there is another session after this, the result is only less certain.
		if err = v.client.Sync(ctx); err == nil {
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
