// Zkdiscover shows the services that are registered in ZooKeeper as curator-x-discovery does it, registers a command as
// one, and lists them for Prometheus.
//
//	zkdiscover ls                                                    names of services
//	zkdiscover ls orders                                             instances
//	zkdiscover watch orders                                          instances, again after each change
//	zkdiscover register -name orders -address 10.0.0.7 -port 8080 -- ./orders
//	zkdiscover http -listen :8080                                    http_sd of Prometheus
//
// zkdiscover -h lists the flags, and zkdiscover register -h those of a command.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := zkdiscover(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const (
	exitFailed = 1
	exitUsage  = 2
)

// exit is an error with the code to end with.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return e.err.Error() }

func usageError(format string, args ...any) error {
	return &exit{exitUsage, fmt.Errorf(format, args...)}
}

// instance has a payload of any form.
type instance = discovery.Instance[json.RawMessage]

// tool is what the commands work with.
type tool struct {
	d           *discovery.Discovery[json.RawMessage]
	out, stderr io.Writer
	timeout     time.Duration
}

var commands = map[string]func(t *tool, ctx context.Context, args []string) error{
	"ls": (*tool).ls, "watch": (*tool).watch, "register": (*tool).register, "http": (*tool).http,
}

// zkdiscover is main with its surroundings: it returns the exit code.
func zkdiscover(ctx context.Context, args []string, out, stderr io.Writer) int {
	err := run(ctx, args, out, stderr)
	var ends *exit
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &ends):
		if ends.err != nil {
			fmt.Fprintf(stderr, "zkdiscover: %v\n", ends.err)
		}
		return ends.code
	case errors.Is(err, framework.ErrBadArgument), errors.Is(err, framework.ErrBadPath):
		fmt.Fprintf(stderr, "zkdiscover: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "zkdiscover: %v\n", err)
	return exitFailed
}

func run(ctx context.Context, args []string, out, stderr io.Writer) error {
	fs := newFlags("zkdiscover", "[flags] ls|watch|register|http ...", stderr)
	servers := fs.String("servers", "127.0.0.1:2181", "`host:port,...` of the ensemble, with a /chroot behind it or not")
	base := fs.String("base", "/services", "`path` below which the services are")
	timeout := fs.Duration("connect", 30*time.Second, "look for a server no longer than this")
	var auth []framework.Option
	fs.Func("auth", "present the `user:password` of the digest scheme; repeatable", func(text string) error {
		auth = append(auth, framework.WithAuth("digest", []byte(text)))
		return nil
	})
	if err := parse(fs, args); err != nil {
		return err
	}
	command, known := commands[fs.Arg(0)]
	switch {
	case !known:
		return usageError("%q is none of the commands ls, watch, register and http", fs.Arg(0))
	case *timeout <= 0:
		return usageError("-connect %v is not positive", *timeout)
	}
	list, chroot, err := framework.ParseConnectString(*servers)
	if err != nil {
		return usageError("-servers: %w", err)
	}
	if len(chroot) > 1 {
		auth = append(auth, framework.WithNamespace(chroot[1:]))
	}
	client, err := framework.New(list, auth...)
	if err != nil {
		return &exit{exitUsage, err}
	}
	defer client.Close()
	d, err := discovery.New[json.RawMessage](client, *base, discovery.OnUnreadable(func(path string, err error) {
		fmt.Fprintf(stderr, "zkdiscover: %s: %v\n", path, err)
	}))
	if err != nil {
		return err
	}
	return command(&tool{d, out, stderr, *timeout}, ctx, fs.Args()[1:])
}

func newFlags(name, usage string, stderr io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // what is wrong is printed once, by zkdiscover
	fs.Usage = func() {
		fmt.Fprintf(stderr, "usage: %s %s\n", name, usage)
		fs.SetOutput(stderr)
		fs.PrintDefaults()
		fs.SetOutput(io.Discard)
	}
	return fs
}

func parse(fs *flag.FlagSet, args []string) error {
	usage := fs.Usage
	fs.Usage = func() {} // package flag also calls it for a bad flag
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		usage()
		return err
	}
	if err != nil {
		return &exit{exitUsage, err}
	}
	return nil
}

// within limits a request to the ensemble.
func (t *tool) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, t.timeout)
}

func (t *tool) ls(ctx context.Context, args []string) error {
	if len(args) > 1 {
		return usageError("usage: zkdiscover ls [name]")
	}
	ctx, cancel := t.within(ctx)
	defer cancel()
	if len(args) == 0 {
		names, err := t.d.Names(ctx)
		for _, name := range names {
			fmt.Fprintln(t.out, name)
		}
		return err
	}
	list, err := t.d.Lookup(ctx, args[0])
	t.print(list)
	return err
}

func (t *tool) watch(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return usageError("usage: zkdiscover watch name")
	}
	loading, cancel := t.within(ctx)
	defer cancel()
	w, err := t.d.Watch(loading, args[0])
	if err != nil {
		return err
	}
	defer w.Close()
	for list, err := range w.Changes(ctx) {
		if err != nil {
			break
		}
		fmt.Fprintf(t.out, "# %s: %d\n", time.Now().Format(time.RFC3339), len(list))
		t.print(list)
	}
	return w.Err()
}

// print writes a line for each instance: id, address, state and payload, with tabs between them.
func (t *tool) print(list []instance) {
	for _, i := range list {
		state := "enabled"
		if i.Disabled {
			state = "disabled"
		}
		payload := i.Payload
		if payload == nil {
			payload = json.RawMessage("null")
		}
		fmt.Fprintf(t.out, "%s\t%s\t%s\t%s\n", i.ID, target(i), state, payload)
	}
}

// target is where an instance is called.
func target(i instance) string {
	port := i.Port
	if port == 0 {
		port = i.SSLPort
	}
	return net.JoinHostPort(i.Address, strconv.Itoa(port))
}
