package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/revocable"
)

// endSignals are those that end us.
func endSignals() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM} }

// wordSignals are none.
func wordSignals() []os.Signal { return nil }

// jobSignals are none: there are no jobs.
func jobSignals() []os.Signal { return nil }

// resetJobSignals does nothing, since there are none.
func resetJobSignals() {}

// endByKey does nothing: there are only exit codes.
func endByKey(syscall.Signal) {}

// child is a command that runs. What it has started cannot be ended with it.
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

// attendance looks after a command that runs while the lock is held.
type attendance struct {
	*run
	*tool
	*child
	hold    *revocable.Hold
	client  *framework.Client
	signals chan os.Signal
}

// attend returns when the command has ended. Windows has no SIGTERM: whatever ends the command kills it. Ctrl-C
// goes to the command by itself.
func (a *attendance) attend() error {
	lost, wanted := a.hold.Done(), a.hold.Revoked()
	var grace <-chan time.Time
	for {
		select {
		case <-a.signals:
		case <-wanted:
			wanted = nil
			a.say("release requested (zklock revoke) for %s", a.hold.Path())
			if a.onLoss != lossIgnore {
				_ = a.cmd.Process.Kill()
			}
		case <-lost:
			lost = nil
			if a.onLoss == lossIgnore {
				a.say("%v; the command goes on", loss(a.hold.Hold))
				continue
			}
			_ = a.cmd.Process.Kill()
			grace = time.After(a.graceIn(a.hold.Session().Timeout()))
		case <-grace: // it does not die
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
		return &exit{code: failed.ExitCode()}
	case err != nil:
		return &exit{exitCannotRun, err}
	}
	return nil
}
