// Package recipe has what recipes share and users do not see.
package recipe

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
)

// Check returns framework.ErrBadArgument if client is nil, and framework.ErrBadPath if a recipe
// cannot use path.
func Check(client *framework.Client, path string) error {
	switch {
	case client == nil:
		return fmt.Errorf("%w: nil client", framework.ErrBadArgument)
	case path == "/":
		return fmt.Errorf("%w: the root is not allowed", framework.ErrBadPath)
	}
	return framework.ValidatePath(path)
}

// Reads calls read, and calls it again whenever the returned channel is closed or the connection is
// lost, like [engine.Follow]. in is a view of client in the session of the connection l, whose
// server has applied everything that was written before the call. Its operations are tried once,
// since a read that fails is repeated.
func Reads(
	ctx context.Context, client *framework.Client,
	read func(ctx context.Context, in *framework.Client, l engine.Link) (changed <-chan struct{}, err error),
) error {
	first := true
	return engine.Follow(ctx, engine.Of(client), func(ctx context.Context, l engine.Link) (<-chan struct{}, error) {
		if first { // later, Follow does it
			if err := engine.Ask(ctx, l.CatchUp); err != nil {
				return nil, err
			}
			first = false
		}
		changed, err := read(ctx, engine.Once(client.In((*framework.Session)(l.Session()))), l)
		return changed, operr.Bare(err)
	})
}
