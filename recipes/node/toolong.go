package node

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// ErrTooLong means that the data are longer than the servers take, which is 1 MB unless they are told otherwise
// (jute.maxbuffer). Servers hang up on such data, and everything that uses the client loses its connection. So they are not
// sent again when that has happened three times. If the servers are told to take less, no error says so.
var ErrTooLong = errors.New("data are too long for the servers")

// Data of this length at least are given up when the connection has ended so often in a row after they were sent. Shorter
// ones the servers most likely take, and a connection may end for another reason.
const (
	longData   = 1<<20 - 64<<10
	maxHangUps = 3
)

// tried notes what has come of sending want. It returns err, or ErrTooLong if want is not to be sent again.
func (k *keeper) tried(want content, err error) error {
	switch {
	case len(want.data) < longData, want.number == k.taken.number, inDoubt(err):
		return err
	case err == nil || refusal(err):
		k.hangUps = 0
		return err
	case !errors.Is(err, zk.ErrConnectionClosed):
		return err
	}
	if k.hungUpOn != want.number {
		k.hungUpOn, k.hangUps = want.number, 0
	}
	if k.hangUps++; k.hangUps < maxHangUps {
		return err
	}
	k.tooLong, k.written = want.number, content{} // the data may be there, with only the replies lost
	err = k.errTooLong(want)
	k.set(func() { k.refused = refused{want.number, err} })
	return err
}

// possible is what the node can hold: what is wanted, or what it held before if that is too long. Then the error says so.
// It has the number 0 if there was nothing before.
func (k *keeper) possible() (content, error) {
	want := k.wanted()
	if want.number == k.tooLong {
		return k.taken, k.errTooLong(want)
	}
	return want, nil
}

// toMake is what to make the node with.
func (k *keeper) toMake() (content, error) {
	want, err := k.possible()
	if want.number > 0 {
		return want, nil
	}
	return want, err
}

func (k *keeper) errTooLong(want content) error {
	return &framework.OpError{Op: "keep", Path: k.asked, Err: fmt.Errorf("%w: %d bytes", ErrTooLong, len(want.data))}
}
