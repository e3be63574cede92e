package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/gocurator/curator/discovery"
)

// stopWait is how long to wait, beside -drain, when no server confirms that the command is unregistered.
const stopWait = 5 * time.Second

// register runs a command that is registered as long as it runs. A signal unregisters it, and stops it after -drain.
func (t *tool) register(ctx context.Context, args []string) error {
	fs := newFlags("zkdiscover register", "-name name -address host -port n [flags] -- command ...", t.stderr)
	var i instance
	fs.StringVar(&i.Name, "name", "", "`name` of the service")
	fs.StringVar(&i.ID, "id", "", "`id` of the instance (default a random one)")
	fs.StringVar(&i.Address, "address", "", "`host` name or IP address at which others reach it")
	fs.IntVar(&i.Port, "port", 0, "its port")
	fs.StringVar(&i.PayloadClass, "class", "", "Java `class` of the payload")
	payload := fs.String("payload", "null", "payload, as `JSON`")
	drain := fs.Duration("drain", 0, "how long the command runs on after it is unregistered")
	if err := parse(fs, args); err != nil {
		return err
	}
	i.Payload = json.RawMessage(*payload)
	switch {
	case fs.NArg() == 0:
		return usageError("register needs a command after its flags")
	case !json.Valid(i.Payload):
		return usageError("-payload is no JSON")
	case i.Name == "" || i.Address == "" || i.Port == 0:
		return usageError("register needs -name, -address and -port")
	case *drain < 0:
		return usageError("-drain %v is negative", *drain)
	}
	ready, cancel := t.within(ctx)
	defer cancel()
	if _, err := t.d.Names(ready); err != nil { // before anything runs that nobody could find
		return err
	}
	cmd := exec.Command(fs.Arg(0), fs.Args()[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, t.out, t.stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the command
	reg, err := t.d.Register(ready, i)
	if err != nil {
		stop(cmd)
		if end := <-ended; ctx.Err() != nil { // a signal came before the node was there
			return code(end)
		}
		return err
	}
	return t.serve(ctx, reg, *drain, ended, func() { stop(cmd) })
}

// serve waits until the command has ended, or stops it when ctx is done. The registration is over when it returns, or goes with the session.
func (t *tool) serve(
	ctx context.Context, reg *discovery.Registration[json.RawMessage], drain time.Duration, ended <-chan error, stop func(),
) error {
	select {
	case end := <-ended:
		t.unregister(reg, 0)
		return code(end)
	case <-ctx.Done():
	}
	t.unregister(reg, drain)
	stop()
	return code(<-ended)
}

// unregister returns when clients have had the time to finish, or no server can be reached.
func (t *tool) unregister(reg *discovery.Registration[json.RawMessage], drain time.Duration) {
	done := make(chan struct{})
	go func() { // ends with the client at the latest
		defer close(done)
		_ = reg.Drain(context.Background(), drain) // if it fails, the session ends with this process
	}()
	select {
	case <-done:
	case <-time.After(drain + stopWait):
	}
}

func stop(cmd *exec.Cmd) {
	if cmd.Process.Signal(syscall.SIGTERM) != nil {
		_ = cmd.Process.Kill() // where there are no signals
	}
}

// code passes on how the command ended.
func code(err error) error {
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return err
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &exit{code: 128 + int(status.Signal())} // as shells do
	}
	return &exit{code: ended.ExitCode()}
}
