package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/revocable"
)

// wordSignals returns no signals.
func wordSignals() []os.Signal { return nil }

// jobSignals returns no signals: Windows has no job control.
func jobSignals() []os.Signal { return nil }

// resetJobSignals does nothing: Windows has no job control.
func resetJobSignals() {}

// endByKey does nothing: a Windows process ends with an exit code only.
func endByKey(syscall.Signal) {}

// child is a running command. The processes that it has started are not ended with it.
type child struct {
	cmd  *exec.Cmd
	done chan error
}

func startChild(program string, words, env []string) (*child, error) {
	cmd := exec.Command(program, words[1:]...)
	cmd.Args[0], cmd.Env = words[0], env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd, make(chan error, 1)}
	go func() { c.done <- cmd.Wait() }() // ends with the command
	return c, nil
}

// attendance watches a command that runs while the lock is held.
type attendance struct {
	*run
	*cli.App
	*child
	hold    *revocable.Hold
	client  *framework.Client
	signals chan os.Signal
}

// attend returns when the command has ended. Windows has no SIGTERM, so the command is killed. The
// command receives Ctrl-C itself.
func (a *attendance) attend() error {
	lost, wanted := a.hold.Done(), a.hold.Revoked()
	var grace <-chan time.Time
	for {
		select {
		case <-a.signals:
		case <-wanted:
			wanted = nil
			a.Say("release requested (zklock revoke) for %s", a.hold.Path())
			if a.onLoss != lossIgnore {
				_ = a.cmd.Process.Kill()
			}
		case <-lost:
			lost = nil
			if a.onLoss == lossIgnore {
				a.Say("%v; the command continues", loss(a.hold.Hold))
				continue
			}
			_ = a.cmd.Process.Kill()
			grace = time.After(a.graceIn(a.hold.Session().Timeout()))
		case <-grace: // the command does not exit
			return loss(a.hold.Hold)
		case err := <-a.done:
			return a.verdict(err)
		}
	}
}

func (a *attendance) verdict(err error) error {
	var failed *exec.ExitError
	switch {
	case a.onLoss != lossIgnore && a.hold.Err() != nil:
		return loss(a.hold.Hold)
	case errors.As(err, &failed):
		return &cli.Exit{Code: failed.ExitCode()}
	case err != nil:
		return &cli.Exit{Code: cli.ExitCannotRun, Err: err}
	}
	return nil
}
