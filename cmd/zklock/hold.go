package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/gocurator/curator/recipes/revocable"
)

// hold holds a lock until a signal comes, or a pipe is closed, for scripts of which a part needs it.
type hold struct {
	locking
	fd int // of the pipe; -1 is none
}

func (h *hold) flags(fs *flag.FlagSet) {
	h.locking.flags(fs)
	h.fd = -1
	fs.Func("fd", "release when the other end of this pipe is closed: `N` is a file descriptor to read from, such as 0", func(text string) error {
		n, err := strconv.ParseUint(text, 10, 16)
		h.fd = int(n)
		return err
	})
}

// untilClosed returns a context that ends, with an exit as cause, when the other end of the pipe is closed. The kernel closes that when the
// last process that has it open has ended, however it ends.
func (h *hold) untilClosed(ctx context.Context) (context.Context, error) {
	if h.fd < 0 {
		return ctx, nil
	}
	name := "-fd " + strconv.Itoa(h.fd)
	pipe := os.NewFile(uintptr(h.fd), name)
	info, err := pipe.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return nil, usageError("%s is not a pipe", name)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with the pipe, or with us
		_, err := io.Copy(io.Discard, pipe)
		if err == nil {
			err = fmt.Errorf("not acquired: the other end of %s is closed", name)
		}
		cancel(&exit{h.refused, err})
	}()
	return ctx, nil
}

// main prints one line when the lock is held. It returns nil when a signal ends it or the pipe is closed, an error with exitLost when the
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
	if ctx, err = h.untilClosed(ctx); err != nil {
		return err
	}
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
		t.say("release requested (zklock revoke) for %s", held.Path())
		return &exit{code: exitAsked}
	case <-held.Done():
		return loss(held.Hold)
	}
}
