//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/revocable"
)

// attendance watches a command that runs while the lock is held.
type attendance struct {
	*run
	*cli.App
	*child
	hold    *revocable.Hold
	client  *framework.Client
	signals chan os.Signal
}

// attend returns when the command, and the processes that it has left behind, have ended.
func (a *attendance) attend() error {
	defer a.child.terminal.close()
	defer a.handBack()
	verdict := a.untilEnd()
	if a.onLoss != lossIgnore {
		grace, lost := a.graceIn(a.hold.Session().Timeout()), (<-chan struct{})(nil)
		if a.onLoss == lossKill { // a loss ends the grace
			grace, lost = a.grace, a.hold.Done()
		}
		a.endRest(grace, lost, a.signals, a.Say)
	}
	switch code := a.code(); {
	case verdict != nil:
		return verdict
	case a.onLoss != lossIgnore && a.hold.Err() != nil:
		return loss(a.hold.Hold)
	case a.status.Signaled():
		return cli.Signaled(a.status.Signal())
	case code != 0:
		return &cli.Exit{Code: code}
	}
	return nil
}

// untilEnd returns when the command has exited. The error is the loss for which zklock ended it.
func (a *attendance) untilEnd() error {
	lost, wanted := a.hold.Done(), a.hold.Revoked()
	var held chan error // whether the lock is still held, for a command that is to continue
	resume := func() {
		if held == nil && a.stopped {
			held = a.checkHeld()
		}
	}
	for {
		select {
		case s := <-a.signals:
			if s == syscall.SIGCONT {
				resume()
				continue
			}
			a.signal(s.(syscall.Signal))
		case s := <-a.stops:
			if s == syscall.SIGCONT {
				a.stopped = false // another process may have sent it
				continue
			}
			if a.pauses(s) && (a.pause() || s == syscall.SIGTSTP || s == syscall.SIGSTOP) {
				resume()
			}
		case err := <-held:
			held = nil
			if err != nil {
				a.endLost()
				return loss(a.hold.Hold)
			}
			a.child.resume()
		case <-wanted:
			wanted = nil
			a.Say("release requested (zklock revoke) for %s", a.hold.Path())
			if a.onLoss != lossIgnore {
				a.signal(syscall.SIGTERM)
			}
		case <-lost:
			if a.onLoss == lossIgnore {
				lost = nil
				a.Say("%v; the command continues", loss(a.hold.Hold))
				continue
			}
			a.endLost()
			return loss(a.hold.Hold)
		case <-a.done:
			return nil
		}
	}
}

// endLost ends the command because the lock is lost. A stopped command is killed: it would have to
// continue to receive SIGTERM, and another client may hold by now, since zklock did not give the
// session up in time while it was stopped.
func (a *attendance) endLost() {
	a.end(a.onLoss == lossTerm && !a.stopped, a.graceIn(a.hold.Session().Timeout()), a.signals)
}

// pause stops zklock with the command. A stopped zklock sends no pings.
func (a *attendance) pause() (stopped bool) {
	if a.onLoss == lossIgnore {
		a.Say("stopped; if it is not continued within %v the lock is lost", a.hold.Session().Timeout())
	} else {
		a.Say("stopped; if it is not continued within %v the lock is lost and the command will be killed", a.hold.Session().Timeout())
	}
	return a.stopWithUs(a.signals)
}

// checkInterval is the time between two checks of the hold.
const checkInterval = 100 * time.Millisecond

// checkHeld checks on the servers whether the lock is still held. zklock sent no pings while it was
// stopped, and its timers may not have fired yet. The channel receives nil, or an error if the lock
// is lost.
func (a *attendance) checkHeld() chan error {
	answer := make(chan error, 1)
	if a.onLoss == lossIgnore {
		answer <- nil
		return answer
	}
	go func() { // ends with the hold
		for {
			_, err := a.client.Multi(a.hold.Context(), a.hold.Guard())
			switch {
			case a.hold.Err() != nil:
				answer <- a.hold.Err()
				return
			case err == nil, errors.Is(err, zk.ErrNoNode):
				answer <- err
				return
			}
			select {
			case <-time.After(checkInterval):
			case <-a.hold.Done():
			}
		}
	}()
	return answer
}
