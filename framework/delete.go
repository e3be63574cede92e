package framework

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/ctxerr"
	"github.com/gocurator/curator/retry"
)

// Delete removes a node if its version is the one given; -1 is any. Errors are
// zk.ErrNoNode, zk.ErrBadVersion, zk.ErrNotEmpty and the like. That the node is missing
// is no error if an earlier try of this call may have removed it.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	if err := ValidatePath(path); err != nil {
		return opError("delete", path, err)
	}
	real := c.real(path)
	maybe := false
	err := c.core.do(ctx, "delete", path, func(l *link) error {
		_, err := c.core.deleteOn(ctx, l, real, version, &maybe)
		return err
	})
	return opError("delete", path, err)
}

// DeleteGuaranteed removes a node of any version, however long it takes: it tries
// until the node is gone, the server refuses for good (zk.ErrNoAuth,
// zk.ErrNotEmpty) or the client is closed. When ctx is done first, DeleteGuaranteed
// returns and the client goes on in the background. A missing node is success; found
// is false then, unless this call may have removed it.
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

// remove is DeleteGuaranteed on a server's path. It counts the attempts unless attempts is nil.
func (c *core) remove(ctx context.Context, path string, attempts *int) (found bool, err error) {
	ctx, cancel := c.untilClosed(ctx)
	defer cancel()
	maybe := false
	err = c.persist(ctx, func(l *link) error {
		if attempts != nil {
			*attempts++
		}
		var err error
		found, err = c.deleteOn(ctx, l, path, -1, &maybe)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return false, nil
	case c.ctx.Err() != nil && ctx.Err() != nil:
		return false, ErrClosed
	case ctx.Err() != nil && err != nil:
		c.removeInBackground(path)
	}
	return found, err
}

// deleteOn makes one try. maybe is what the tries of one operation know of
// each other: one of them may have removed the node.
func (c *core) deleteOn(ctx context.Context, l *link, path string, version int32, maybe *bool) (found bool, err error) {
	_, err = ask(ctx, l, askDelete(path, version))
	if retry.Unknown(err) {
		*maybe = true
	}
	if errors.Is(err, zk.ErrNoNode) && *maybe {
		return true, nil
	}
	return err == nil, err
}

// removeInBackground removes a node that nobody waits for.
func (c *core) removeInBackground(path string) {
	c.background(func() {
		if _, err := c.remove(c.ctx, path, nil); err != nil && c.ctx.Err() == nil {
			c.cfg.log.Warn("node stays behind", "path", path, "reason", err)
		}
	})
}

// sweep removes, in the background, what a create with this id may have left below dir, or
// may leave yet: a server that stands still can carry a request out long after its
// connection is gone. So it looks again and again, with growing pauses, while the session
// lives whose request it was. After the last of them nothing can be on its way any more.
func (c *core) sweep(session *Session, dir, id string) {
	look := func(l *link) error {
		children, err := c.freshChildren(c.ctx, l, dir)
		if err != nil {
			return err
		}
		for _, child := range children {
			if hasID(child, id) {
				c.removeInBackground(Join(dir, child))
			}
		}
		return nil
	}
	c.background(func() { // ends with the session or the client at the latest
		for pause := firstSweepPause; ; pause *= 2 {
			if err := c.persist(c.ctx, look); err != nil {
				if c.ctx.Err() == nil {
					c.cfg.log.Warn("node may stay behind", "dir", dir, "id", id, "reason", err)
				}
				return
			}
			if pause > lastSweepPause || session.Err() != nil {
				return // a session that is over takes its nodes along
			}
			select {
			case <-time.After(pause):
			case <-session.Done():
			case <-c.ctx.Done():
				return
			}
		}
	})
}

const (
	firstSweepPause = 500 * time.Millisecond
	lastSweepPause  = 10 * time.Minute
)

// persist repeats attempt, whatever the policy says, until it succeeds, fails for
// good, or ctx is done.
func (c *core) persist(ctx context.Context, attempt func(l *link) error) error {
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(minConnectPause),
		backoff.WithMaxInterval(maxConnectPause),
		backoff.WithMaxElapsedTime(0)) // for ever
	for {
		l, err := c.awaitLink(ctx, nil, 0)
		if err == nil {
			err = attempt(l)
		}
		if err == nil || !retry.Retryable(err) {
			return err
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return ctxerr.Of(ctx)
		}
	}
}
