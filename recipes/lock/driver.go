package lock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gocurator/curator/framework"
)

// Driver decides who holds. Implementations must be safe for concurrent use, and must decide in the same way in
// all processes that use a path. Embed [Standard] and replace what differs. It is Curator's LockInternalsDriver.
//
// A driver may also have a method
//
//	WouldWait(children []string, maxLeases int) bool
//
// that reports from the sorted children whether a new node would have to wait. TryAcquire then returns [ErrNotAcquired] without
// a write. Standard has none, so a driver that embeds it inherits none.
type Driver interface {
	// Create makes our node below base and returns its full path. The node must be
	// ephemeral, must be protected ([framework.Protected]), and must be made with
	// ctx, which ties it to a session. Missing parents must be made.
	Create(ctx context.Context, client *framework.Client, base, name string, data []byte) (string, error)

	// SortKey returns the part of a child's name that orders the queue, by comparison of bytes. ours is false
	// for children that do not belong to this lock; they are ignored.
	SortKey(child, name string) (key string, ours bool)

	// Decide returns whether own has one of maxLeases leases and, if not, whose deletion to wait for. children
	// are sorted and contain own.
	Decide(children []string, own string, maxLeases int) (Decision, error)
}

// Decision is a driver's answer.
type Decision struct {
	// Held says that the node has a lease.
	Held bool

	// Watch names children of which at least one must be deleted before Held can become true. It is empty if
	// Held.
	Watch []string
}

// Standard is the driver of Curator's mutex and semaphore: the first maxLeases nodes in
// the order of their sequence numbers hold.
type Standard struct{}

var _ Driver = Standard{}

// Create makes a protected ephemeral sequential node, and its parents as containers.
func (Standard) Create(ctx context.Context, client *framework.Client, base, name string, data []byte) (string, error) {
	return client.Create(ctx, framework.Join(base, name), data,
		framework.As(framework.EphemeralSequential), framework.Protected(), framework.ContainerParents())
}

// SortKey is the sequence number.
func (Standard) SortKey(child, name string) (key string, ours bool) {
	digits, _, ours := sequence(child, name)
	return digits, ours
}

// Decide watches the maxLeases nodes directly ahead. When fewer than maxLeases nodes are left ahead, at least
// one of those was deleted. So a waiter wakes whichever holder releases.
func (Standard) Decide(children []string, own string, maxLeases int) (Decision, error) {
	i := slices.Index(children, own)
	if i < 0 {
		return Decision{}, fmt.Errorf("%s: %w", own, ErrNodeDeleted)
	}
	if i < maxLeases {
		return Decision{Held: true}, nil
	}
	return Decision{Watch: children[i-maxLeases : i]}, nil
}

// Sequence returns the number that the server gave to a child whose name, without protection, begins with name.
// Numbers are signed: they become negative when they overflow.
func Sequence(child, name string) (n int32, ok bool) {
	_, n, ok = sequence(child, name)
	return n, ok
}

// sequence also returns the digits. They are looked for at the end, since the name may consist of digits too.
func sequence(child, name string) (digits string, n int32, ok bool) {
	// The server prints %010d: ten characters, or eleven for a minus and ten digits.
	for _, length := range []int{10, 11} {
		at := len(child) - length
		if at < len(name) || !strings.HasSuffix(child[:at], name) {
			continue
		}
		digits = child[at:]
		if digits[0] == '+' || length == 11 && digits[0] != '-' {
			continue
		}
		if v, err := strconv.ParseInt(digits, 10, 32); err == nil {
			return digits, int32(v), true
		}
	}
	return "", 0, false
}
