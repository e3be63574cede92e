package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
)

// elect runs a command while it leads an election, and campaigns again when a term has ended. A
// term is a hold on the queue of latch nodes, so the promises of run hold for it.
type elect struct {
	run
	selector bool
}

// maxID is the longest id in bytes, as in package leader.
const maxID = 1 << 16

func (e *elect) flags(a *cli.App, fs *pflag.FlagSet) {
	e.wait = cli.Unset
	e.Connection.Flags(a, fs)
	fs.SetInterspersed(false) // flags after the path belong to the command
	fs.StringVar(&e.id, "id", "", "`text` that identifies this candidate to other clients; by default host, process and command")
	fs.BoolVar(&e.selector, "selector", false, "take part in the elections of Curator's LeaderSelector, not LeaderLatch; also excludes holders of a mutex at the path")
	fs.StringVar(&e.onLoss, "on-loss", lossTerm, "when the leadership is lost: `term` (SIGTERM, then SIGKILL after --grace) or kill (at once)")
	e.graceFlag(fs)
	e.sessionFlag(fs)
	e.ACLFlag(a, fs)
}

func (e *elect) check() error {
	switch {
	case !slices.Contains([]string{lossTerm, lossKill}, e.onLoss):
		return cli.UsageError("invalid --on-loss %q: must be term or kill", e.onLoss)
	case len(e.id) > maxID || !utf8.ValidString(e.id):
		return cli.UsageError("--id of %d bytes: must be UTF-8 of at most %d bytes", len(e.id), maxID)
	}
	return e.run.check()
}

// campaignInterval is the minimum time between the beginnings of two campaigns.
const campaignInterval = time.Second

// main campaigns again after each term. It returns when the command exits by itself, after a
// signal, and after a permanent error.
func (e *elect) main(ctx context.Context, t *cli.App, _ io.Writer, args []string) error {
	if err := e.check(); err != nil {
		return err
	}
	j, err := newJob(args)
	if err != nil {
		return err
	}
	e.election = !e.selector
	outliveReaders()
	spared := func(s os.Signal) bool { return e.runs.Load() && slices.Contains(wordSignals(), s) }
	ctx, stop := cli.InterruptedUnless(ctx, spared, e.runs.Load)
	defer stop()
	client, err := e.connect(ctx, t, e.percent(), filepath.Base(j.program))
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	defer client.Close()
	for {
		began := time.Now()
		again, err := e.lead(ctx, t, client, j)
		switch {
		case !again:
			return err
		case ctx.Err() != nil:
			return cmp.Or(err, context.Cause(ctx))
		}
		if err != nil {
			t.Say("%v; campaigning again", err)
		}
		resetJobSignals()
		if wait.Sleep(ctx, time.Until(began.Add(campaignInterval))) != nil {
			return context.Cause(ctx)
		}
	}
}

// lead campaigns, runs the command for one term, and resigns when the command has ended. again
// reports whether to campaign again; err is then the reason for the loss, or nil if another client
// has asked for the leadership.
func (e *elect) lead(ctx context.Context, t *cli.App, client *framework.Client, j *job) (again bool, err error) {
	q, hold, err := e.enter(ctx, t, client, j.path)
	if err != nil {
		return transient(err), cli.Interruption(ctx, err)
	}
	defer hold.Release()
	err = e.hold(ctx, t, q, hold, j)
	var end *cli.Exit
	if err != nil && (!errors.As(err, &end) || end.Err != nil) {
		return transient(err), err
	}
	select {
	case <-hold.Revoked():
		if ctx.Err() == nil {
			return true, nil
		}
	default:
	}
	return false, err // the command has ended by itself, or by a signal that was passed on
}

// transient reports whether a new campaign may succeed after err: with another connection, session
// or node.
func transient(err error) bool {
	var end *cli.Exit
	if errors.As(err, &end) {
		return end.Code == exitLost
	}
	return verdict.Retryable(err) || errors.Is(err, framework.ErrLost) || errors.Is(err, zk.ErrNoNode)
}
