package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/once"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/retry"
)

// runOnce runs the command unless it has succeeded for the key.
func (r *run) runOnce(ctx context.Context, t *cli.App, client *framework.Client, j *job) error {
	o, err := once.New(client, j.path)
	if err != nil {
		return &cli.Exit{Code: cli.ExitUsage, Err: err}
	}
	c, err := r.queue(client, j.path)
	if err != nil {
		return &cli.Exit{Code: cli.ExitUsage, Err: err}
	}
	if err := r.checkKinds(ctx, t, client, j.path, true); err != nil {
		return err
	}
	// --wait limits the wait for others, and not the command.
	asked := time.Now()
	patient, giveUp := context.WithCancel(ctx)
	defer giveUp()
	within, do, inTime := "", o.Do, func() bool { return true }
	if r.try {
		do = o.TryDo
	} else if r.wait > 0 {
		within = fmt.Sprintf(" in %v", r.wait)
		inTime = time.AfterFunc(r.wait, giveUp).Stop
	}
	stop := sync.OnceFunc(func() {})
	if r.Verbose && !r.try {
		stop = sync.OnceFunc(c.reportAhead(patient, t))
	}
	began := false
	done, err := do(patient, r.once, func(held context.Context) error {
		stop()
		if began = inTime(); !began {
			return context.Cause(patient)
		}
		hold, err := once.Hold(held)
		if err != nil {
			return err
		}
		if err := r.checkKinds(ctx, t, client, j.path, false); err != nil {
			return err
		}
		forOthers, cancel := r.patience(ctx, asked)
		defer cancel()
		if err := r.awaitOthers(ctx, forOthers, t, c, hold, within); err != nil {
			return err
		}
		watched, err := revocable.Watch(hold)
		if err != nil {
			return err
		}
		return r.hold(ctx, t, c, watched, j)
	})
	stop()
	var exit *cli.Exit
	switch {
	case err == nil && !done.Ran:
		t.Say("%s of %s was done by %s at %s", r.once, j.path, cmp.Or(done.By, "another client"), done.At.Format(time.RFC3339))
		return nil
	case err == nil:
		return nil
	case done.Ran:
		text := "the command has succeeded, but this is not recorded, and another client may run it"
		if retry.Unknown(err) {
			text = "the command has succeeded, and it is not known whether this is recorded"
		}
		return &cli.Exit{Code: exitUnrecorded, Err: fmt.Errorf("%s: %w", text, err)}
	case errors.As(err, &exit):
		return err
	case errors.Is(err, framework.ErrBadArgument):
		return &cli.Exit{Code: cli.ExitUsage, Err: err}
	case errors.Is(err, framework.ErrLost) && began:
		return &cli.Exit{Code: exitLost, Err: err}
	case ctx.Err() == nil && !began && (errors.Is(err, lock.ErrNotAcquired) || patient.Err() != nil):
		return r.notAcquired(ctx, c, within)
	}
	return cli.Interruption(ctx, err)
}

// patience returns a context that ends when zklock waits no longer for others.
func (l *locking) patience(ctx context.Context, asked time.Time) (context.Context, context.CancelFunc) {
	switch {
	case l.try:
		patient, cancel := context.WithCancel(ctx)
		cancel()
		return patient, cancel
	case l.wait > 0:
		return context.WithDeadline(ctx, asked.Add(l.wait))
	}
	return context.WithCancel(ctx)
}

// onceLs lists the records of a job.
type onceLs struct {
	cli.Connection
	json bool
}

func (l *onceLs) flags(a *cli.App, fs *pflag.FlagSet) {
	l.Connection.Flags(a, fs)
	fs.BoolVar(&l.json, "json", false, "print JSON")
}

// recordLine is the output for a record.
type recordLine struct {
	Key string    `json:"key"`
	By  string    `json:"by"`
	At  time.Time `json:"at"`
}

func (l *onceLs) main(ctx context.Context, t *cli.App, out io.Writer, args []string) error {
	path, err := pathOf(args)
	if err != nil {
		return err
	}
	return withJob(ctx, t, &l.Connection, path, func(ctx context.Context, o *once.Once, all []once.Record) error {
		lines := []recordLine{}
		for _, r := range all {
			lines = append(lines, recordLine{r.Key, r.By, r.At})
		}
		if l.json {
			return printJSON(out, lines)
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "KEY\tAT\tBY")
		for _, l := range lines {
			fmt.Fprintf(w, "%s\t%s\t%s\n", cli.Printable(l.Key), l.At.Format(time.RFC3339), cli.Printable(l.By))
		}
		return w.Flush()
	})
}

// onceForget removes records.
type onceForget struct{ cli.Connection }

func (f *onceForget) flags(a *cli.App, fs *pflag.FlagSet) { f.Connection.Flags(a, fs) }

func (f *onceForget) main(ctx context.Context, t *cli.App, _ io.Writer, args []string) error {
	if len(args) < 2 {
		return cli.UsageError("a path and a key are required")
	}
	if err := checkPath(args[0]); err != nil {
		return err
	}
	return withJob(ctx, t, &f.Connection, args[0], func(ctx context.Context, o *once.Once, all []once.Record) error {
		for _, key := range args[1:] {
			if !slices.ContainsFunc(all, func(r once.Record) bool { return r.Key == key }) {
				return noLock("%s of %s is not recorded", key, args[0])
			}
			if err := o.Forget(ctx, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// withJob calls f with the records of a path.
func withJob(ctx context.Context, t *cli.App, c *cli.Connection, path string, f func(ctx context.Context, o *once.Once, all []once.Record) error) error {
	ctx, stop := cli.Interrupted(ctx)
	defer stop()
	client, err := c.Connect(ctx, t)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	defer client.Close()
	o, err := once.New(client, path)
	if err != nil {
		return &cli.Exit{Code: cli.ExitUsage, Err: err}
	}
	all, err := o.Records(ctx)
	if err == nil && len(all) == 0 {
		err = noLock("%s has no records", path)
	}
	if err == nil {
		err = f(ctx, o, all)
	}
	return cli.Interruption(ctx, err)
}
