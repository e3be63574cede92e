package main

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// messages passes on what we say, and waits only for a short time for somebody who does not read it: a command is ended and a lock is released
// also if standard error is a pipe that is full, or a terminal that is stopped.
type messages struct {
	to   io.Writer
	turn chan struct{} // capacity 1: full while somebody writes
}

func newMessages(to io.Writer) *messages { return &messages{to, make(chan struct{}, 1)} }

// sayTimeout is how long a message may hold us up.
const sayTimeout = 100 * time.Millisecond

var errNobodyReads = errors.New("nobody reads what is written")

// Write writes text, or has it written as soon as somebody reads. Text that comes while earlier text is not read is dropped.
func (m *messages) Write(text []byte) (int, error) {
	timer := time.NewTimer(sayTimeout)
	defer timer.Stop()
	select {
	case m.turn <- struct{}{}:
	case <-timer.C:
		return 0, errNobodyReads
	}
	text = bytes.Clone(text) // it is the caller's again when we return
	done := make(chan error, 1)
	go func() { // ends when somebody reads, or with us
		_, err := m.to.Write(text)
		<-m.turn
		done <- err
	}()
	select {
	case err := <-done:
		return len(text), err
	case <-timer.C:
		return len(text), nil
	}
}
