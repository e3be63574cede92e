package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/gocurator/curator/recipes/revocable"
)

// hold holds a lock until a signal comes, for scripts of which a part needs it.
type hold struct{ locking }

func (h *hold) flags(fs *flag.FlagSet) { h.locking.flags(fs) }

// main prints one line when the lock is held. It returns nil when it was told to end, an error with exitLost when the
// lock is lost, and with SIGTERM's code when somebody has asked for the lock.
func (h *hold) main(t *tool, args []string) error {
	if err := h.check(); err != nil {
		return err
	}
	path, err := pathOf(args)
	if err != nil {
		return err
	}
	outliveReaders()
	ctx, stop := interrupted()
	defer stop()
	client, err := h.connect(ctx, t, 100, "zklock hold")
	if err != nil {
		return interruption(ctx, err)
	}
	defer client.Close()
	_, held, err := h.enter(ctx, t, client, path)
	if err != nil {
		return interruption(ctx, err)
	}
	defer held.Release()
	token, err := held.FencingToken(ctx)
	if err != nil {
		return before(ctx, held.Hold, err)
	}
	if _, err := fmt.Fprintf(t.out, "%s %s %d\n", path, held.Path(), token); err != nil {
		return err // nobody would know that it is held
	}
	return h.attend(ctx, t, held)
}

func (h *hold) attend(ctx context.Context, t *tool, held *revocable.Hold) error {
	select {
	case <-ctx.Done():
		return nil
	case <-held.Revoked():
		t.say("somebody asks for %s", held.Path())
		return &exit{code: exitAsked}
	case <-held.Done():
		return loss(held.Hold)
	}
}
