package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// elect runs a command while it leads an election, and campaigns again when a term has ended. A term is a hold on the
// queue of latch nodes, so that all that is true of a command that run runs is true of this one.
type elect struct {
	run
	selector bool
}

// maxID is the longest id in bytes, as in package leader.
const maxID = 1 << 16

func (e *elect) flags(fs *flag.FlagSet) {
	e.connection.flags(fs)
	fs.StringVar(&e.id, "id", "", "`text` that others see of this candidate; the default is the host, the process and the command")
	fs.BoolVar(&e.selector, "selector", false, "take part in the elections of Curator's LeaderSelector, not LeaderLatch; its nodes are those of a mutex")
	fs.StringVar(&e.onLoss, "on-loss", lossTerm, "when the leadership is lost: `term` (SIGTERM, then SIGKILL after -grace) or kill (at once)")
	e.graceFlag(fs)
	e.sessionFlag(fs)
	e.aclFlag(fs)
}

func (e *elect) check() error {
	switch {
	case !slices.Contains([]string{lossTerm, lossKill}, e.onLoss):
		return usageError("-on-loss %q is none of term and kill", e.onLoss)
	case len(e.id) > maxID || !utf8.ValidString(e.id):
		return usageError("-id of %d bytes is not UTF-8 of at most %d", len(e.id), maxID)
	}
	return e.run.check()
}

// campaignInterval is the time between the beginnings of two campaigns, at least.
const campaignInterval = time.Second

// main leads again and again. It ends with the command, if that ends by itself, with a signal, and with an error that
// repeating does not heal.
func (e *elect) main(t *tool, args []string) error {
	if err := e.check(); err != nil {
		return err
	}
	j, err := newJob(args)
	if err != nil {
		return err
	}
	e.election = !e.selector
	outliveReaders()
	ctx, stop := interruptedUnless(func(s os.Signal) bool { return e.runs.Load() && slices.Contains(wordSignals(), s) })
	defer stop()
	client, err := e.connect(ctx, t, e.percent(), filepath.Base(j.program))
	if err != nil {
		return interruption(ctx, err)
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
			t.say("%v; campaigning again", err)
		}
		resetJobSignals()
		if wait.Sleep(ctx, time.Until(began.Add(campaignInterval))) != nil {
			return context.Cause(ctx)
		}
	}
}

// lead campaigns, runs the command for one term, and gives the leadership up when the command has ended. again says
// that it is time for the next campaign; err is then why the term was lost, or nil if somebody has asked for it.
func (e *elect) lead(ctx context.Context, t *tool, client *framework.Client, j *job) (again bool, err error) {
	q, hold, err := e.enter(ctx, t, client, j.path)
	if err != nil {
		return transient(err), interruption(ctx, err)
	}
	defer hold.Release()
	err = e.hold(ctx, t, q, hold, j)
	var end *exit
	if err != nil && (!errors.As(err, &end) || end.err != nil) {
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

// transient reports whether a campaign or a term that ended with err may go well when it is begun anew: with another
// connection, another session, or another node.
func transient(err error) bool {
	var end *exit
	if errors.As(err, &end) {
		return end.code == exitLost
	}
	return retry.Retryable(err) || errors.Is(err, framework.ErrLost) || errors.Is(err, zk.ErrNoNode)
}
