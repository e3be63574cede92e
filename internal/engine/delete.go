package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/retry"
)

// Delete deletes a node if its version is the one given; -1 is any. If a try was not answered, and the node is missing then, the error
// wraps zk.ErrNoNode, and [retry.Unknown] is true.
func (c Client) Delete(ctx context.Context, path string, version int32) error {
	real, maybe := c.Real(path), false
	return c.Do(ctx, "delete", path, func(l *Connection) error {
		found, err := c.deleteOn(ctx, l, real, version, &maybe)
		if err == nil && !found {
			return doubtful{zk.ErrNoNode}
		}
		return err
	})
}

// DeleteGuaranteed deletes a node, however long it takes. When ctx is done first, it goes on in the background, and with
// a context of [InSession] while the session lives.
func (c Client) DeleteGuaranteed(ctx context.Context, path string) (found bool, err error) {
	real := c.Real(path)
	if c.cfg.Operation == nil || ctx.Err() != nil { // with a context that is done, only the background does anything
		return c.remove(ctx, real, nil)
	}
	err = c.observed(ctx, "delete", path, func(attempts *int) error {
		found, err = c.remove(ctx, real, attempts)
		return err
	})
	return found, err
}

// DeleteSoon is DeleteGuaranteed of a node at a valid path, of the context's session, and does not wait. While the
// session is connected and the client has no observer, the delete has its place in the connection's order when
// DeleteSoon returns, and f is called on the connection's goroutine, or within DeleteSoon if the connection has
// just ended. f is called once, with what DeleteGuaranteed returns and the path in the error, and must not block.
func (c Client) DeleteSoon(ctx context.Context, path string, f func(found bool, err error)) {
	end := func(found bool, err error) {
		if err != nil {
			err = fmt.Errorf("delete %s: %w", path, err)
		}
		f(found, err)
	}
	later := func(maybe bool) {
		if !c.background(func() { // ends with the client or the session
			found, err := c.DeleteGuaranteed(ctx, path)
			end(found || maybe, err)
		}) {
			end(false, ErrClosed)
		}
	}
	l := c.current().link
	if l == nil || l.session != sessionOf(ctx) || c.cfg.Operation != nil {
		later(false)
		return
	}
	q := askDelete(c.Real(path), -1)
	q.done = func(_ None, err error) {
		switch {
		case errors.Is(err, zk.ErrNoNode):
			end(false, nil)
		case retry.Retryable(err):
			later(retry.Unknown(err))
		default:
			end(err == nil, err)
		}
	}
	post(l, q)
}

// remove is DeleteGuaranteed on a server's path. It counts the attempts unless attempts is nil.
func (c *core) remove(ctx context.Context, path string, attempts *int) (found bool, err error) {
	maybe := false
	err = c.persist(ctx, func(l *Connection) error {
		if attempts != nil {
			*attempts++
		}
		removed, err := c.deleteOn(ctx, l, path, -1, &maybe)
		found = err == nil && (removed || !HintsOf(ctx).Certain)
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

// deleteOn makes one try. maybe is what the tries of one operation know of each other: one of them may have
// removed the node. If so, and it is missing now, deleteOn returns false and no error.
func (c *core) deleteOn(ctx context.Context, l *Connection, path string, version int32, maybe *bool) (found bool, err error) {
	q := askDelete(path, version)
	q.written = HintsOf(ctx).Sent
	_, err = Call(ctx, l, q)
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
			c.cfg.Log.Warn("node stays behind", "path", path, "reason", err)
		}
	})
}
