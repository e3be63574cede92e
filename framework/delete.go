package framework

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/retry"
)

// Delete deletes a node if its version is the one given; -1 is any. Errors are zk.ErrNoNode, zk.ErrBadVersion
// and zk.ErrNotEmpty.
//
// A deletion whose reply was lost is repeated as the retry policy says. If the node is missing then, nobody
// knows who deleted it: the error wraps zk.ErrNoNode, and [retry.Unknown] is true. ([Client.DeleteIfExists] and
// [Client.DeleteGuaranteed] return no error.) If somebody has made the node again, with the same version, that
// one is deleted. New nodes have version 0.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	if err := ValidatePath(path); err != nil {
		return opError("delete", path, err)
	}
	real := c.real(path)
	maybe := false
	err := c.core.do(ctx, "delete", path, func(l *link) error {
		found, err := c.core.deleteOn(ctx, l, real, version, &maybe)
		if err == nil && !found {
			return unanswered{zk.ErrNoNode}
		}
		return err
	})
	return opError("delete", path, err)
}

// DeleteIfExists is [Client.Delete], but a missing node is no error. found is false if the node was
// missing, unless this call may have deleted it. It is Curator's delete().quietly(), except that
// other failures are still errors.
func (c *Client) DeleteIfExists(ctx context.Context, path string, version int32) (found bool, err error) {
	err = c.Delete(ctx, path, version)
	if errors.Is(err, zk.ErrNoNode) {
		return retry.Unknown(err), nil
	}
	return err == nil, err
}

// DeleteGuaranteed deletes a node of any version, however long it takes: it tries
// until the node is gone, the server refuses for good (zk.ErrNoAuth,
// zk.ErrNotEmpty) or the client is closed. When ctx is done first, DeleteGuaranteed
// returns its error, and the client continues in the background. A missing node is success; found
// is false then, unless this call may have deleted it. With a context from [InSession] all of this
// ends with the session, and the error is [ErrSessionLost].
//
// It is Curator's delete().guaranteed().
func (c *Client) DeleteGuaranteed(ctx context.Context, path string) (found bool, err error) {
	if err := ValidatePath(path); err != nil {
		return false, opError("delete", path, err)
	}
	// With a context that is done, only the background does anything.
	if c.core.observer == nil || ctx.Err() != nil {
		found, err = c.core.remove(ctx, c.real(path), nil)
	} else {
		found, err = c.core.removeObserved(ctx, path, c.real(path))
	}
	return found, opError("delete", path, err)
}

func init() {
	clientapi.DeleteSoon = func(ctx context.Context, client any, path string, f func(found bool, err error)) {
		client.(*Client).deleteSoon(ctx, path, f)
	}
}

// deleteSoon is [clientapi.DeleteSoon].
func (c *Client) deleteSoon(ctx context.Context, path string, f func(found bool, err error)) {
	l := c.core.current().link
	later := func(maybe bool) {
		if !c.core.background(func() { // ends with the client or the session
			found, err := c.DeleteGuaranteed(ctx, path)
			f(found || maybe, err)
		}) {
			f(false, opError("delete", path, ErrClosed))
		}
	}
	if l == nil || l.session != sessionOf(ctx) || c.core.observer != nil {
		later(false)
		return
	}
	d := &deletion{f: func(err error) {
		switch {
		case err == nil:
			f(true, nil)
		case errors.Is(err, zk.ErrNoNode):
			f(false, nil)
		case retry.Retryable(err):
			later(retry.Unknown(err))
		default:
			f(false, opError("delete", path, err))
		}
	}}
	d.request = conn.Request{Op: proto.OpDelete, Frame: askDelete(c.real(path), -1).frame, Handler: d}
	l.conn.Send(&d.request)
}

// deletion is a delete whose answer goes to a function.
type deletion struct {
	request conn.Request
	f       func(error)
}

// Reply implements [conn.Handler].
func (d *deletion) Reply(_ *proto.Decoder, err error) { d.f(err) }

// remove is DeleteGuaranteed on a server's path. It counts the attempts unless attempts is nil.
func (c *core) remove(ctx context.Context, path string, attempts *int) (found bool, err error) {
	maybe := false
	err = c.persist(ctx, func(l *link) error {
		if attempts != nil {
			*attempts++
		}
		removed, err := c.deleteOn(ctx, l, path, -1, &maybe)
		found = err == nil && (removed || !clientapi.HintsOf(ctx).Certain)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return false, nil
	case c.ctx.Err() != nil && err != nil:
		err = ErrClosed
	case ctx.Err() != nil && err != nil:
		c.removeInBackground(path, sessionOf(ctx))
	}
	if err != nil && maybe {
		err = doubtful{err} // one try was not answered, whatever has ended the others
	}
	return found, err
}

// removeObserved is remove, and tells of it. asked is path as the caller wrote it.
func (c *core) removeObserved(ctx context.Context, asked, path string) (found bool, err error) {
	err = c.observed(ctx, "delete", asked, func(attempts *int) error {
		var err error
		found, err = c.remove(ctx, path, attempts)
		return err
	})
	return found, err
}

// deleteOn makes one try. maybe is what the tries of one operation know of each other: one of them may have
// removed the node. If so, and it is missing now, deleteOn returns false and no error.
func (c *core) deleteOn(ctx context.Context, l *link, path string, version int32, maybe *bool) (found bool, err error) {
	q := askDelete(path, version)
	q.written = clientapi.HintsOf(ctx).Sent
	_, err = ask(ctx, l, q)
	if retry.Unknown(err) {
		*maybe = true
	}
	if errors.Is(err, zk.ErrNoNode) && *maybe {
		return false, nil
	}
	return err == nil, err
}

// removeInBackground removes a node that nobody waits for; with a session, only while it lives.
func (c *core) removeInBackground(path string, session *Session) {
	ctx := c.ctx
	if session != nil {
		ctx = InSession(ctx, session)
	}
	c.background(func() { // ends with the client
		_, err := c.remove(ctx, path, nil)
		if err != nil && c.ctx.Err() == nil && !errors.Is(err, ErrSessionLost) {
			c.cfg.log.Warn("node stays behind", "path", path, "reason", err)
		}
	})
}
