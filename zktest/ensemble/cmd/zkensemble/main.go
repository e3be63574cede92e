//go:build unix

// Command zkensemble runs a command, and starts ZooKeeper ensembles in Docker for it:
//
//	zkensemble -- go test ./...
//
// The command finds the address of a control server in CURATOR_TEST_ENSEMBLE. Through it the tests
// of github.com/gocurator/curator start, break and remove ensembles, so that their module needs no
// Docker client. One ensemble is for all who order a shared one: it stays until the end. The
// control server listens on the loopback address only, below a secret path.
//
// The command runs in a separate process group, and reads nothing. SIGINT, SIGTERM and SIGHUP are
// passed on to the group; the second of them kills it. The exit code is the command's, 128 plus the
// signal if a signal ended it, 1 without a Docker engine, and 2 without a command.
//
// All containers and networks are removed at the end, even if zkensemble is killed: a second
// process waits for its end, kills the command, and removes what remains.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/gocurator/curator/zktest/ensemble"
	"github.com/gocurator/curator/zktest/ensemble/internal/control"
)

// variable is the environment variable with the address of the control server.
const variable = "CURATOR_TEST_ENSEMBLE"

// removalTimeout is how long the removal of all containers and networks may take.
const removalTimeout = 20 * time.Minute

func main() {
	args := os.Args[1:]
	if len(args) == 2 && args[0] == removerFlag {
		if err := removeAfter(os.Stdin, args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "zkensemble:", err)
			os.Exit(1)
		}
		return
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: zkensemble -- command [argument ...]")
		os.Exit(2)
	}
	code, err := run(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "zkensemble:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run runs the command with a control server, and returns its exit code when all is removed.
func run(args []string) (code int, err error) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// Two processes may remove the same, so other errors than this one mean nothing yet.
	if err := ensemble.Sweep(context.Background()); errors.Is(err, ensemble.ErrNoDocker) {
		return 1, err
	}
	remover, err := startRemover()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, remover.finish()) }()
	address, shutdown, err := serve()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shutdown()) }()
	return runCommand(args, address, signals, remover.commandStarted)
}

// serve starts the control server. shutdown removes all ensembles.
func serve() (address string, shutdown func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	secret := "/" + rand.Text()
	ensembles := &starter{start: start}
	server := &http.Server{
		Handler:     http.StripPrefix(secret, control.New(ensembles.order)),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }() // ends with shutdown
	return "http://" + listener.Addr().String() + secret, func() error {
		cancel() // the handlers end, and remove their ensembles
		ctx, stop := context.WithTimeout(context.Background(), removalTimeout)
		defer stop()
		err := server.Shutdown(ctx)
		if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
			err = errors.Join(err, serveErr)
		}
		return errors.Join(err, ensembles.close())
	}, nil
}

func start(ctx context.Context, order control.Order) (control.Ensemble, error) {
	var opts []ensemble.Option
	if order.Servers != 0 {
		opts = append(opts, ensemble.WithServers(order.Servers))
	}
	for name, value := range order.Env {
		opts = append(opts, ensemble.WithEnv(name, value))
	}
	opts = append(opts, ensemble.WithProperties(order.Properties))
	for path, content := range order.Files {
		opts = append(opts, ensemble.WithFile(path, content))
	}
	e, err := ensemble.Start(ctx, opts...)
	if err != nil {
		return nil, err // not e: a nil pointer in an interface is not nil
	}
	return e, nil
}

// runCommand runs the command with the address in its environment, passes signals on, and returns
// the exit code. It calls started with the process group.
func runCommand(args []string, address string, signals <-chan os.Signal, started func(group int) error) (code int, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), variable+"="+address)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	if err := started(cmd.Process.Pid); err != nil {
		return 1, errors.Join(err, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL), cmd.Wait())
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the command
	for passed := false; ; passed = true {
		select {
		case s := <-signals:
			number := s.(syscall.Signal)
			if passed {
				number = syscall.SIGKILL
			}
			// An error means that the command has just ended.
			_ = syscall.Kill(-cmd.Process.Pid, number)
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 1, err
			}
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}
