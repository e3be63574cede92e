package shared

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/uuid"
	"github.com/gocurator/curator/retry"
)

// notWritten is an error of a request before the write. Its lost reply says nothing about the
// value.
type notWritten struct{ error }

func (n notWritten) Unwrap() error { return n.error }

// Unknown makes [retry.Unknown] false.
func (n notWritten) Unknown() bool { return false }

// write writes the node once, if its number is the expected one. It returns the node's version if
// that is known: see the package comment. If the number differs, the error is ErrChanged. Unless
// retry.Unknown reports true for the error, nothing was written.
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
		in := v.client.In(session)
		responses, err := in.Multi(ctx, op, &zk.CreateRequest{Path: mark, Data: []byte{}, Flags: zk.FlagEphemeral})
		switch {
		case err == nil && responses[0].Stat != nil:
			now = versionOf(responses[0].Stat)
		case err == nil:
		case retry.Unknown(err):
			err = v.settle(ctx, session, mark, err)
		case errors.Is(err, framework.ErrSessionLost):
			continue // nothing was sent
		case expected == noNode && errors.Is(err, zk.ErrNoNode):
			// An empty container is deleted, so a child exists until the node does.
			dir, _ := framework.Split(v.path)
			child, err := in.Create(ctx, framework.Join(dir, "parent"), []byte{},
				framework.As(framework.Ephemeral), framework.Protected(), framework.ContainerParents())
			if err != nil && !errors.Is(err, framework.ErrSessionLost) {
				return now, notWritten{operr.Bare(err)}
			}
			defer v.discard(session, child)
			continue
		default:
			return now, refused(err)
		}
		v.discard(session, mark)
		return now, refused(err)
	}
}

// refused turns the replies to a write that expected another state of the node into ErrChanged.
func refused(err error) error {
	for _, answer := range []error{zk.ErrBadVersion, zk.ErrNoNode, zk.ErrNodeExists} {
		if errors.Is(err, answer) && !retry.Unknown(err) {
			return ErrChanged
		}
	}
	return err
}

// settle finds out whether the write of a mark, whose outcome is unknown, was done. It returns nil
// if so, unknown if that cannot be found out, and otherwise the reason of the refusal.
func (v *Value[T]) settle(ctx context.Context, session *framework.Session, mark string, unknown error) error {
	there, _, err := v.client.In(session).Exists(ctx, mark)
	lost := errors.Is(err, framework.ErrSessionLost)
	if lost {
		// The servers may not have ended it yet. If there is another session after this, the result
		// is only less certain.
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

// discard deletes an ephemeral node of a session. On the connection it follows all earlier
// requests.
func (v *Value[T]) discard(session *framework.Session, path string) {
	if path != "" {
		engine.Of(v.client.In(session)).Discard(path, (*engine.Session)(session))
	}
}
