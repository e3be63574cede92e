package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/recipes/revocable"
)

// hold holds a lock until a signal arrives or a pipe is closed, for scripts that need the lock in
// one part.
type hold struct {
	locking
	fd int // the pipe's; -1 is none
}

func (h *hold) flags(a *cli.App, fs *pflag.FlagSet) {
	h.locking.flags(a, fs)
	cli.Number(fs, &h.fd, "fd", "", -1, 0, math.MaxUint16, "release when the other end of this pipe is closed: `N` is a file descriptor to read from, such as 0")
}

// untilClosed returns a context that ends, with an exit as cause, when the other end of the pipe is
// closed. The kernel closes it when the last process that has it open has ended, even after
// SIGKILL.
func (h *hold) untilClosed(ctx context.Context) (context.Context, error) {
	if h.fd < 0 {
		return ctx, nil
	}
	name := "--fd " + strconv.Itoa(h.fd)
	pipe := os.NewFile(uintptr(h.fd), name)
	info, err := pipe.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return nil, cli.UsageError("%s is not a pipe", name)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with the pipe, or with zklock
		_, err := io.Copy(io.Discard, pipe)
		if err == nil {
			err = fmt.Errorf("not acquired: the other end of %s is closed", name)
		}
		cancel(&cli.Exit{Code: h.refused, Err: err})
	}()
	return ctx, nil
}

// main prints one line when the lock is held. It returns nil after a signal or the end of the pipe,
// an error with exitLost when the lock is lost, and with exitAsked when another client has asked
// for the lock.
func (h *hold) main(ctx context.Context, t *cli.App, out io.Writer, args []string) error {
	if err := h.check(); err != nil {
		return err
	}
	path, err := pathOf(args)
	if err != nil {
		return err
	}
	outliveReaders()
	ctx, stop := cli.Interrupted(ctx)
	defer stop()
	if ctx, err = h.untilClosed(ctx); err != nil {
		return err
	}
	client, err := h.connect(ctx, t, 100, "zklock hold")
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	defer client.Close()
	_, held, err := h.enter(ctx, t, client, path)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	defer held.Release()
	token, err := held.FencingToken(ctx)
	if err != nil {
		return before(ctx, held.Hold, err)
	}
	if _, err := fmt.Fprintf(out, "%s %s %d\n", path, held.Path(), token); err != nil {
		return err // the script would not know that the lock is held
	}
	return h.attend(ctx, t, held)
}

func (h *hold) attend(ctx context.Context, t *cli.App, held *revocable.Hold) error {
	select {
	case <-ctx.Done():
		return nil
	case <-held.Revoked():
		t.Say("release requested (zklock revoke) for %s", held.Path())
		return &cli.Exit{Code: exitAsked}
	case <-held.Done():
		return loss(held.Hold)
	}
}
