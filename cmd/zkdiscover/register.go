package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/wait"
)

// stopWait is the time after --drain for which zkdiscover waits for a server to confirm that the
// command is unregistered.
const stopWait = 5 * time.Second

// statuses are the ones of Spring: UP and OUT_OF_SERVICE of Spring Cloud ZooKeeper, and the others
// of Spring Boot.
var statuses = []string{"UP", "OUT_OF_SERVICE", "DOWN", "UNKNOWN"}

// register runs a command that is registered as long as it runs.
type register struct {
	services
	instance
	payload, profile, status, uri string
	metadata                      map[string]string
	drain                         time.Duration

	busy atomic.Bool // the command runs, and signals are for it
}

func (r *register) command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "register --name name --address host --port n [flags] -- command args...",
		Short:                 "Run a command that is registered as long as it runs",
		DisableFlagsInUseLine: true,
		Long: `register starts a command and registers it as an instance of a service.

SIGINT, SIGQUIT and SIGTERM unregister it, and are passed on to the command after --drain, or when the command ends by itself. A second
signal kills the command at once. SIGHUP, SIGUSR1 and SIGUSR2 are passed on at once. The exit code is the command's.`,
		Example: cli.Examples(
			"zkdiscover register --name orders --address 127.0.0.1 --port 8080 -- ./orders",
			"zkdiscover register --profile spring --name orders --address 127.0.0.1 --port 8080 --metadata zone=eu --drain 10s -- ./orders"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.run(cmd.Context(), a, args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	r.flags(a, f)
	r.ACLFlag(a, f)
	f.StringVar(&r.Name, "name", "", "`name` of the service; it may have slashes")
	f.StringVar(&r.ID, "id", "", "`id` of the instance (default a random one)")
	f.StringVar(&r.Address, "address", "", "`host` name or IP address at which clients reach the instance")
	cli.Number(f, &r.Port, "port", "", 0, 1, 1<<16-1, "its `port`")
	cli.Number(f, &r.SSLPort, "tls-port", "", 0, 1, 1<<16-1, "its `port` for TLS")
	f.StringVar(&r.profile, "profile", "", "register as an application of this `framework`: spring or dubbo")
	f.StringToStringVar(&r.metadata, "metadata", nil, "metadata of a --profile, as `key=value`; repeatable")
	f.StringVar(&r.status, "status", "", "`status` of a Spring application: OUT_OF_SERVICE, DOWN or UNKNOWN (default UP)")
	f.StringVar(&r.uri, "uri", "", "`pattern` of the instance's URI, such as {scheme}://{address}:{port} (default none; Spring's with --profile spring)")
	f.StringVar(&r.payload, "payload", "", "payload, as `JSON`, without a --profile (default null)")
	f.StringVar(&r.PayloadClass, "class", "", "Java `class` of the --payload")
	cli.Duration(f, &r.drain, "drain", "", 0, "how long the command may run on after it was unregistered")
	return cmd
}

// complete checks the flags and builds the instance.
func (r *register) complete() (i instance, err error) {
	i = r.instance
	switch {
	case r.Name == "" || r.Address == "" || r.Port == 0 && r.SSLPort == 0:
		return i, cli.UsageError("register requires --name, --address and --port or --tls-port")
	case r.profile == "" && (r.metadata != nil || r.status != ""):
		return i, cli.UsageError("--metadata and --status require --profile")
	case r.profile != "" && (r.payload != "" || r.PayloadClass != ""):
		return i, cli.UsageError("--profile cannot be combined with --payload or --class")
	case r.status != "" && r.profile != "spring":
		return i, cli.UsageError("--status requires --profile spring")
	case r.status != "" && !slices.Contains(statuses, r.status):
		return i, cli.UsageError("invalid --status %q: must be %s", r.status, strings.Join(statuses, ", "))
	case r.payload != "" && !json.Valid([]byte(r.payload)):
		return i, cli.UsageError("--payload is not valid JSON")
	}
	i.Payload = json.RawMessage("null")
	if r.payload != "" {
		i.Payload = json.RawMessage(r.payload)
	}
	var made discovery.Instance[discovery.Metadata]
	switch r.profile {
	case "":
	case "spring":
		if r.status != "" {
			if r.metadata == nil {
				r.metadata = map[string]string{}
			}
			r.metadata["instance_status"] = r.status
		}
		made = discovery.Spring(r.Name, r.Address, r.Port, r.metadata)
	case "dubbo":
		made = discovery.Dubbo(r.Name, r.Address, r.Port, r.metadata)
	default:
		return i, cli.UsageError("invalid --profile %q: must be spring or dubbo", r.profile)
	}
	if r.profile != "" {
		if i.ID == "" {
			i.ID = made.ID
		} else if r.profile == "dubbo" {
			made.Payload.ID = i.ID
		}
		if i.Payload, err = json.Marshal(made.Payload); err != nil {
			return i, err
		}
		i.PayloadClass, i.URISpec = made.PayloadClass, made.URISpec
	}
	if r.uri != "" {
		if i.URISpec, err = discovery.ParseURISpec(r.uri); err != nil {
			return i, cli.UsageError("--uri: %w", err)
		}
	}
	return i, nil
}

// run starts the command, registers it, and serves until it has ended.
func (r *register) run(ctx context.Context, a *cli.App, args []string) error {
	i, err := r.complete()
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return cli.UsageError("register needs a command behind its flags")
	}
	program, err := exec.LookPath(args[0])
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return &cli.Exit{Code: cli.ExitNotFound, Err: err}
	case err != nil:
		return &cli.Exit{Code: cli.ExitCannotRun, Err: err}
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a command must not be left behind because messages are not read
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, cli.Listened(cli.EndSignals()...)...)
	defer signal.Stop(signals)
	word := func(s os.Signal) bool { return r.busy.Load() && slices.Contains(wordSignals(), s) }
	ctx, stop := cli.InterruptedUnless(ctx, word, r.busy.Load)
	defer stop()

	t, err := r.connect(ctx, a) // before a command runs that no client could find
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	defer t.client.Close()
	if err := t.awaitFree(ctx, i); err != nil {
		return cli.Interruption(ctx, err)
	}
	r.busy.Store(true)
	defer r.busy.Store(false)
	c, err := start(program, args, a.Out)
	if err != nil {
		return &cli.Exit{Code: cli.ExitCannotRun, Err: err}
	}
	ready, cancel := t.within(ctx)
	defer cancel()
	reg, err := t.d.Register(ready, i)
	s := &serving{child: c, signals: signals, ending: ctx}
	if err != nil {
		end := s.end(0)
		if ctx.Err() != nil { // a signal arrived first
			return end
		}
		return usage(err)
	}
	s.unregister = func(ctx context.Context, drain time.Duration) {
		_ = reg.Drain(ctx, drain) // if it fails, the session ends with this process
	}
	return s.serve(r.drain)
}

// awaitFree waits until no other process is registered with the instance's id: the node of a
// crashed one exists until its session expires. It returns an error if the id stays taken.
func (t *tool) awaitFree(ctx context.Context, i instance) error {
	if i.ID == "" {
		return nil // it will be random
	}
	limited, cancel := t.within(ctx)
	defer cancel()
	path := framework.Join(framework.Join(t.base, i.Name), i.ID)
	if err := framework.ValidatePath(path); err != nil {
		return usage(err)
	}
	taken := fmt.Errorf("id %s is taken: another process is registered at %s", cli.Printable(i.ID), cli.Printable(path))
	for said := false; ; said = true {
		found, stat, watch, err := t.client.ExistsW(limited, path)
		switch {
		case err != nil && limited.Err() != nil && ctx.Err() == nil && said, found && stat.EphemeralOwner == 0:
			return taken
		case err != nil || !found:
			return err
		}
		if !said {
			t.app.Say("waiting for the id %s: another process is registered at %s", cli.Printable(i.ID), cli.Printable(path))
		}
		select {
		case <-watch.Done():
		case <-limited.Done():
		}
	}
}

// serving is a command that runs and is registered.
type serving struct {
	child      process
	signals    <-chan os.Signal
	ending     context.Context // ends with the first signal that is to end the command
	unregister func(ctx context.Context, drain time.Duration)
	received   int // signals that are to end the command
}

// process is a running command.
type process interface {
	ended() <-chan struct{}
	signal(syscall.Signal)
	result() error // once ended is closed
}

// serve returns when the command has exited. The registration has then ended, or ends with the
// session.
func (s *serving) serve(drain time.Duration) error {
	for {
		select {
		case sig := <-s.signals:
			s.receive(sig)
		case <-s.child.ended():
			return s.end(0)
		case <-s.ending.Done():
			return s.end(drain)
		}
	}
}

// receive handles a signal. It passes on a signal that does not end the command. The second one
// that does kills the command.
func (s *serving) receive(sig os.Signal) {
	if slices.Contains(wordSignals(), sig) {
		s.child.signal(sig.(syscall.Signal))
		return
	}
	if s.received++; s.received > 1 { // the first one has ended the context
		s.child.signal(syscall.SIGKILL)
	}
}

// end unregisters the command, lets it run on for drain, passes on the signal that ended the
// context, and returns how the command has ended.
func (s *serving) end(drain time.Duration) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	unregistered := make(chan struct{})
	go func() { // ends with the client at the latest
		defer close(unregistered)
		if s.unregister != nil {
			s.unregister(ctx, drain)
		}
	}()
	s.await(unregistered, drain+stopWait)
	if !wait.Closed(s.child.ended()) {
		sig, ok := cli.SignalOf(context.Cause(s.ending))
		if !ok {
			sig = syscall.SIGTERM
		}
		if !fromTerminal(sig) {
			s.child.signal(sig)
		}
		s.await(nil, 0)
	}
	cancel() // the end of the command ends the drain
	select {
	case <-unregistered:
	case <-time.After(stopWait):
	}
	return s.child.result()
}

// await returns when the command has ended, when other is closed, or after limit, which may be 0
// for none.
func (s *serving) await(other <-chan struct{}, limit time.Duration) {
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-s.child.ended():
			return
		case <-other:
			return
		case <-late:
			return
		case sig := <-s.signals:
			s.receive(sig)
		}
	}
}

// child is the process of a command.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; valid once done is closed
}

// start starts a command in the process group of zkdiscover: the keys of a terminal and its job
// control are for both.
func start(program string, words []string, out io.Writer) (*child, error) {
	cmd := exec.Command(program, words[1:]...)
	cmd.Args[0] = words[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, os.Stderr
	endWithUs(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, done: make(chan struct{})}
	go func() { // ends with the command
		c.err = cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

func (c *child) ended() <-chan struct{} { return c.done }

// result passes on how the command has ended.
func (c *child) result() error {
	var failed *exec.ExitError
	if !errors.As(c.err, &failed) {
		return c.err
	}
	if s, signaled := endedBy(failed); signaled {
		return cli.Signaled(s)
	}
	return &cli.Exit{Code: failed.ExitCode()}
}
