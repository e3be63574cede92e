package framework

import (
	"context"
	"fmt"
	"strings"

	"github.com/gocurator/curator/internal/wait"
)

// Shutdown closes the client gracefully, like [net/http.Server.Shutdown]. It cancels all holds and
// registrations, waits until they are released or ctx is done, and calls [Client.Close].
//
//   - New holds, campaigns and kept nodes fail with [ErrShutdown]. Other operations work until
//     Close.
//   - The contexts of holds and terms are cancelled with the cause [ErrShutdown]. Their nodes are
//     deleted by Release, so no other client acquires the lock while the work may still run.
//   - Ephemeral nodes of recipes/node, such as members and registrations of services, are deleted
//     at once. Persistent nodes are kept.
//
// Shutdown may be called several times.
//
// Errors are
//   - the error of ctx if ctx was done before all holds were released. The text contains the paths
//     of the holds that were not;
//   - [ErrClosed] if Close was called before all holds were released. The text contains the paths
//     as well;
//   - [ErrBadArgument] if the client is a view: nothing is cancelled.
func (c *Client) Shutdown(ctx context.Context) error {
	if err := c.closable(); err != nil {
		return opError("shutdown", "/", err)
	}
	left := c.engine.Shutdown(ctx)
	if len(left) == 0 {
		return nil
	}
	reason := wait.Err(ctx)
	if ctx.Err() == nil {
		reason = ErrClosed
	}
	return opError("shutdown", "/", fmt.Errorf("%w: not released: %s", reason, strings.Join(left, ", ")))
}
