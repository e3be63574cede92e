// Package cli provides the parts that the programs below cmd share: commands, exit codes, messages,
// signals, and the flags of a connection to ZooKeeper.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// App is a running program, with its name and its outputs.
type App struct {
	Name string
	Out  io.Writer // results
	Err  io.Writer // messages

	// EndedBy is the signal that terminated the program or its command, or 0 without one. It is
	// valid once Execute has returned.
	EndedBy syscall.Signal

	started bool // a command has begun to run
}

// Say prints a message on one line. It escapes line breaks and other unprintable characters.
func (a *App) Say(format string, args ...any) {
	fmt.Fprintf(a.Err, "%s: %s\n", a.Name, OneLine(fmt.Sprintf(format, args...)))
}

// Prepare completes a root command. It adds the commands version and man, and prints each error on
// one line. Cobra adds help and completion.
func (a *App) Prepare(root *cobra.Command) *cobra.Command {
	root.Use = a.Name
	root.SilenceErrors, root.SilenceUsage, root.DisableSuggestions = true, true, true
	root.Version = ModuleVersion()
	root.SetVersionTemplate(a.versionLine())
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		a.started = true
		return noEmptyFlag(cmd.Flags())
	}
	if !root.Runnable() {
		root.RunE = func(*cobra.Command, []string) error {
			return UsageError("a command is missing")
		}
	}
	root.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			_, _ = io.WriteString(cmd.OutOrStdout(), a.versionLine()) // Execute reports a failed write
		},
	}, a.man(root))
	root.InitDefaultCompletionCmd()
	if cmd, _, err := root.Find([]string{"completion"}); err == nil && cmd != root {
		cmd.Args = nil
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			return UsageError("completion requires a shell: bash, zsh, fish or powershell")
		}
	}
	return root
}

// noEmptyFlag returns an error for a flag with an empty value. Usually a variable is
// not set.
func noEmptyFlag(fs *pflag.FlagSet) (err error) {
	fs.Visit(func(f *pflag.Flag) {
		if list, ok := f.Value.(pflag.SliceValue); ok && !slices.Contains(list.GetSlice(), "") || !ok && f.Value.String() != "" {
			return
		}
		err = cmp.Or(err, UsageError("--%s is empty", f.Name))
	})
	return err
}

func (a *App) man(root *cobra.Command) *cobra.Command {
	header := func() *doc.GenManHeader {
		return &doc.GenManHeader{Section: "1", Source: a.Name + " " + ModuleVersion(), Manual: "Curator for Go"}
	}
	var dir string
	cmd := &cobra.Command{
		Use:   "man [command]",
		Short: "Print a manual page, or write all of them to a directory",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case dir != "" && len(args) > 0:
				return UsageError("--dir and a command cannot be combined")
			case dir != "":
				if err := os.MkdirAll(dir, 0o777); err != nil {
					return UsageError("--dir: %w", err)
				}
				return doc.GenManTree(root, header(), dir)
			}
			page := root
			if len(args) > 0 {
				found, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return UsageError("unknown command %q", args[0])
				}
				page = found
			}
			return doc.GenMan(page, header(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "write the pages of all commands to this `directory`")
	return cmd
}

// Execute runs the program, prints its error and returns its exit code.
func (a *App) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	out := &output{to: a.Out}
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(a.Err)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err != nil && !a.started: // cobra refuses the command line
		err = &Exit{ExitUsage, err}
	case err == nil && out.err != nil:
		err = fmt.Errorf("write output: %w", out.err)
	}
	if err == nil {
		return 0
	}
	end, by := &Exit{ExitUnavailable, err}, (*signaled)(nil)
	errors.As(err, &end)
	if errors.As(err, &by) {
		a.EndedBy = by.by
	}
	switch {
	case end.Err == nil:
	case end.Code == ExitUsage:
		a.Say("%v; %s --help lists the flags", err, cmd.CommandPath())
	default:
		a.Say("%v", err)
	}
	return end.Code
}

// output remembers the first failed write.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(text []byte) (int, error) {
	n, err := o.to.Write(text)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

func (a *App) versionLine() string {
	return fmt.Sprintf("%s %s (%s, %s/%s)\n", a.Name, ModuleVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// ModuleVersion returns the module's version, or "(devel)" if it is unknown. In a build of the
// repository the version contains the commit.
func ModuleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// Duration defines a flag for a duration of at least 0. Unlike in package pflag, the error for a
// number without a unit shows how to add one.
func Duration(fs *pflag.FlagSet, d *time.Duration, name, shorthand string, value time.Duration, usage string) {
	*d = value
	fs.VarP((*duration)(d), name, shorthand, usage)
}

type duration time.Duration

func (d *duration) String() string {
	if *d == unset {
		return "" // no default
	}
	return time.Duration(*d).String()
}

func (d *duration) Type() string { return "duration" }

// unset is the value of a duration whose default depends on other flags.
const unset = -1

// Unset is the value of a duration flag whose default depends on other flags.
const Unset time.Duration = unset

func (d *duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	switch {
	case err == nil && v < 0:
		return errors.New("must not be negative")
	case err == nil:
		*d = duration(v)
	case isNumber(text):
		return fmt.Errorf("missing unit, as in %ss or %sms", text, text)
	default:
		return errors.New("must be a number with a unit, as in 30s or 1m30s")
	}
	return nil
}

func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// Number defines a flag for an integer from low to high.
func Number(fs *pflag.FlagSet, n *int, name, shorthand string, value, low, high int, usage string) {
	*n = value
	fs.VarP(&number{n, low, high}, name, shorthand, usage)
}

type number struct {
	n         *int
	low, high int
}

func (v *number) String() string {
	if v.n == nil || *v.n < v.low {
		return "" // no default
	}
	return strconv.Itoa(*v.n)
}

func (v *number) Type() string { return "int" }

func (v *number) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < v.low || n > v.high {
		return fmt.Errorf("must be an integer from %d to %d", v.low, v.high)
	}
	*v.n = n
	return nil
}

// Examples indents and joins lines for the help of a command.
func Examples(lines ...string) string { return "  " + strings.Join(lines, "\n  ") }
