//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/revocable"
)

// attendance looks after a command that runs while the lock is held.
type attendance struct {
	*run
	*tool
	*child
	hold    *revocable.Hold
	client  *framework.Client
	signals chan os.Signal
}

// attend returns when the command has ended, with all that it has left behind.
func (a *attendance) attend() error {
	defer a.child.terminal.close()
	defer a.handBack()
	verdict := a.untilEnd()
	if a.onLoss != lossIgnore {
		grace, lost := a.graceIn(a.hold.Session().Timeout()), (<-chan struct{})(nil)
		if a.onLoss == lossKill { // no time is kept back for a loss: it ends the grace
			grace, lost = a.grace, a.hold.Done()
		}
		a.endRest(grace, lost, a.signals, a.say)
	}
	switch code := a.code(); {
	case verdict != nil:
		return verdict
	case a.onLoss != lossIgnore && a.hold.Err() != nil:
		return loss(a.hold.Hold)
	case a.status.Signaled():
		return signaledBy(a.status.Signal())
	case code != 0:
		return &exit{code: code}
	}
	return nil
}

// untilEnd returns when the command has ended. The error is a loss for which it was ended.
func (a *attendance) untilEnd() error {
	lost, wanted := a.hold.Done(), a.hold.Revoked()
	var held chan error // whether the lock is ours, for a command that is to go on
	goOn := func() {
		if held == nil && a.stopped {
			held = a.checkHeld()
		}
	}
	for {
		select {
		case s := <-a.signals:
			if s == syscall.SIGCONT {
				goOn()
				continue
			}
			a.signal(s.(syscall.Signal))
		case s := <-a.stops:
			if s == syscall.SIGCONT {
				a.stopped = false // whoever has sent it
				continue
			}
			if a.pauses(s) && (a.pause() || s == syscall.SIGTSTP || s == syscall.SIGSTOP) {
				goOn()
			}
		case err := <-held:
			held = nil
			if err != nil {
				a.endLost()
				return loss(a.hold.Hold)
			}
			a.child.goOn()
		case <-wanted:
			wanted = nil
			a.say("release requested (zklock revoke) for %s", a.hold.Path())
			if a.onLoss != lossIgnore {
				a.signal(syscall.SIGTERM)
			}
		case <-lost:
			if a.onLoss == lossIgnore {
				lost = nil
				a.say("%v; the command goes on", loss(a.hold.Hold))
				continue
			}
			a.endLost()
			return loss(a.hold.Hold)
		case <-a.done:
			return nil
		}
	}
}

// endLost ends the command because the lock is lost. One that is stopped would have to go on to hear SIGTERM, and others may hold by now: nobody
// has given the session up early enough while we were stopped. So it is killed.
func (a *attendance) endLost() {
	a.end(a.onLoss == lossTerm && !a.stopped, a.graceIn(a.hold.Session().Timeout()), a.signals)
}

// pause stops us with the command. While we are stopped nobody keeps the session.
func (a *attendance) pause() (stopped bool) {
	if a.onLoss == lossIgnore {
		a.say("stopped; if it is not continued within %v the lock is lost", a.hold.Session().Timeout())
	} else {
		a.say("stopped; if it is not continued within %v the lock is lost and the command will be killed", a.hold.Session().Timeout())
	}
	return a.stopWithUs(a.signals)
}

// checkInterval is the time between two questions whether the lock is still held.
const checkInterval = 100 * time.Millisecond

// checkHeld asks the servers whether the lock is still ours, since nobody has kept it while we were stopped, and
// our timers may not have noticed yet. The answer comes on the channel: an error if it is lost.
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
