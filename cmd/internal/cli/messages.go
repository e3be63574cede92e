package cli

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// messages writes messages and blocks only briefly if they are not read. Therefore a full pipe or a
// stopped terminal at standard error does not delay the end of a command or the release of a lock.
type messages struct {
	to   io.Writer
	turn chan struct{} // capacity 1: full while a write is in progress
}

// Messages returns a writer of messages that blocks for at most 100 ms per message. It drops
// messages while the reader is blocked.
func Messages(to io.Writer) io.Writer { return &messages{to, make(chan struct{}, 1)} }

// messageTimeout is how long a message may block its writer.
const messageTimeout = 100 * time.Millisecond

var errNotRead = errors.New("message dropped: the reader is blocked")

// Write writes text now, or as soon as the reader reads. Text that arrives while earlier text is
// not read is dropped.
func (m *messages) Write(text []byte) (int, error) {
	timer := time.NewTimer(messageTimeout)
	defer timer.Stop()
	select {
	case m.turn <- struct{}{}:
	case <-timer.C:
		return 0, errNotRead
	}
	text = bytes.Clone(text) // the caller may reuse it when Write has returned
	done := make(chan error, 1)
	go func() { // ends when the reader reads, or with the program
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
