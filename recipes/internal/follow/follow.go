// Package follow waits with the operations of a client: read, wait for a watch, read again.
package follow

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
)

// What recipes use of other packages.
var (
	Again   = engine.Again
	OpError = operr.New
	Bare    = operr.Bare
)

// Reads is [engine.Follow] with the operations of client, which read carries out with its context: in the session of the connection l, and
// in one that has seen all that was written before the call. They are tried once, since a read that fails is repeated.
func Reads(
	ctx context.Context, client *framework.Client, read func(ctx context.Context, l engine.Link) (changed <-chan struct{}, err error),
) error {
	ctx = framework.InSession(ctx, nil) // the session of a caller's lock is not ours
	first := true
	return engine.Follow(ctx, engine.Of(client), func(ctx context.Context, l engine.Link) (<-chan struct{}, error) {
		ctx = engine.WithHints(engine.InSession(ctx, l.Session()), engine.Hints{Once: true})
		if first { // later, Follow does it
			if err := engine.Ask(ctx, l.CatchUp); err != nil {
				return nil, err
			}
			first = false
		}
		changed, err := read(ctx, l)
		return changed, Bare(err)
	})
}

// Check returns what is wrong with the arguments of a recipe at one path: framework.ErrBadArgument or framework.ErrBadPath.
func Check(client *framework.Client, path string) error {
	switch {
	case client == nil:
		return fmt.Errorf("%w: nil client", framework.ErrBadArgument)
	case path == "/":
		return fmt.Errorf("%w: not the root", framework.ErrBadPath)
	}
	return framework.ValidatePath(path)
}
