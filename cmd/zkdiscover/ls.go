package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/framework"
)

// list prints names or instances.
type list struct{ services }

func (l *list) command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls [name]",
		Short: "List the names of the services, or the instances of one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := cli.Interrupted(cmd.Context())
			defer stop()
			return cli.Interruption(ctx, l.run(ctx, a, cmd.OutOrStdout(), args))
		},
	}
	l.flags(a, cmd.Flags())
	l.formatFlag(cmd.Flags())
	return cmd
}

func (l *list) run(ctx context.Context, a *cli.App, out io.Writer, args []string) error {
	t, err := l.connect(ctx, a)
	if err != nil {
		return err
	}
	defer t.client.Close()
	ctx, cancel := t.within(ctx)
	defer cancel()
	if len(args) > 0 {
		found, err := t.d.Lookup(ctx, args[0])
		if err != nil {
			return usage(err)
		}
		if len(found) == 0 {
			if err := t.exists(ctx, args[0]); err != nil {
				return err
			}
		}
		return printInstances(out, found)
	}
	names, err := t.names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := fmt.Fprintln(out, cli.Printable(name)); err != nil {
			return err
		}
	}
	return nil
}

// exists returns an error if a service has no node.
func (t *tool) exists(ctx context.Context, name string) error {
	found, _, err := t.client.Exists(ctx, framework.Join(t.base, name))
	if err == nil && !found {
		err = &cli.Exit{Code: exitNoService, Err: fmt.Errorf("no service %s", cli.Printable(name))}
	}
	return err
}

// watch prints instances after each change.
type watch struct{ services }

func (w *watch) command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch name",
		Short: "List the instances of a service now and after each change",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := cli.Interrupted(cmd.Context())
			defer stop()
			return w.run(ctx, a, cmd.OutOrStdout(), args[0])
		},
	}
	w.flags(a, cmd.Flags())
	w.formatFlag(cmd.Flags())
	return cmd
}

// run returns nil when ctx ends: a signal is the normal end of a watch.
func (w *watch) run(ctx context.Context, a *cli.App, out io.Writer, name string) error {
	t, err := w.connect(ctx, a)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	defer t.client.Close()
	loading, cancel := t.within(ctx)
	defer cancel()
	instances, err := t.d.Watch(loading, name)
	if err != nil {
		return cli.Interruption(ctx, usage(err))
	}
	defer instances.Close()
	for list, err := range instances.Observe(ctx) {
		if err != nil {
			break
		}
		if _, err := fmt.Fprintf(out, "# %s: %d\n", time.Now().Format(time.RFC3339), len(list)); err != nil {
			return err
		}
		if err := printInstances(out, list); err != nil {
			return err
		}
	}
	return instances.Err()
}

// usage adds the exit code to errors that the command line caused.
func usage(err error) error {
	if errors.Is(err, framework.ErrBadArgument) || errors.Is(err, framework.ErrBadPath) {
		return &cli.Exit{Code: cli.ExitUsage, Err: err}
	}
	return err
}

// printInstances writes a line for each instance: id, address, state and payload, separated by
// tabs.
func printInstances(out io.Writer, list []instance) error {
	for _, i := range list {
		state := "enabled"
		if i.Disabled {
			state = "disabled"
		}
		if i.Payload == nil {
			i.Payload = json.RawMessage("null")
		}
		_, err := fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", cli.Printable(i.ID), cli.Printable(target(i)), state, cli.PrintableJSON(i.Payload))
		if err != nil {
			return err
		}
	}
	return nil
}

// target returns the address at which an instance is called.
func target(i instance) string {
	return i.Addr(cmp.Or(i.Port, i.SSLPort))
}
