package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/retry"
)

// DeleteGuaranteed deletes a node, however long it takes. When ctx is done first, it goes on in the background, and with
// a context of [InSession] while the session lives. If the node is missing after a try that was not answered, found is !certain.
func (c Client) DeleteGuaranteed(ctx context.Context, path string, certain bool) (found bool, err error) {
	began, done := time.Now(), ctx.Err() != nil
	found, tries, err := c.remove(ctx, c.Real(path), certain)
	if !done { // otherwise only the background does anything
		c.report(ctx, Operation{Op: "delete", Path: path, Began: began, Attempts: tries, Err: err})
	}
	return found, err
}

// DeleteSoon is DeleteGuaranteed of a node at a valid path, of the context's session, and does not wait. While the
// session is connected, the delete has its place in the connection's order when DeleteSoon returns, and f is called on the
// connection's goroutine, or within DeleteSoon if the connection has just ended. f is called once, with what DeleteGuaranteed
// returns and the path in the error, and must not block.
func (c Client) DeleteSoon(ctx context.Context, path string, f func(found bool, err error)) {
	end := func(found bool, err error) {
		if err != nil {
			err = fmt.Errorf("delete %s: %w", path, err)
		}
		f(found, err)
	}
	later := func(maybe bool) {
		if !c.background(func() { // ends with the client or the session
			found, err := c.DeleteGuaranteed(ctx, path, false)
			end(found || maybe && err == nil, err)
		}) {
			end(false, ErrClosed)
		}
	}
	l := c.current().link
	if l == nil || l.session != sessionOf(ctx) {
		later(false)
		return
	}
	q, began := AskDelete(c.Real(path), -1), time.Now()
	q.done = func(_ None, err error) {
		if retry.Retryable(err) {
			later(retry.Unknown(err))
			return
		}
		found := err == nil
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
		c.reportSoon(Operation{Op: "delete", Path: path, Began: began, Attempts: 1, Err: err})
		end(found, err)
	}
	post(l, q)
}

// remove is DeleteGuaranteed on a server's path, and returns the number of tries.
func (c *core) remove(ctx context.Context, path string, certain bool) (found bool, tries int, err error) {
	tries, err = c.repeat(ctx, true, func(l *Connection) error {
		_, err := Call(ctx, l, AskDelete(path, -1))
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return retry.Unknown(err) && !certain, tries, nil
	}
	if err != nil && ctx.Err() != nil {
		c.removeInBackground(path, sessionOf(ctx))
	}
	return err == nil, tries, err
}

// removeInBackground removes a node that nobody waits for; with a session, only while it lives.
func (c *core) removeInBackground(path string, session *Session) {
	ctx := c.ctx
	if session != nil {
		ctx = InSession(ctx, session)
	}
	c.background(func() { c.removeUnasked(ctx, path) }) // ends with the client
}

// removeUnasked removes a node that nobody waits for.
func (c *core) removeUnasked(ctx context.Context, path string) {
	_, _, err := c.remove(ctx, path, false)
	if err != nil && c.ctx.Err() == nil && !errors.Is(err, ErrSessionLost) {
		c.cfg.Log.Warn("node stays behind", "path", path, "reason", err)
	}
}
