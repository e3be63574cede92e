package lock

import (
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/connstate"
)

// Option configures a lock. Constructors refuse bad values with [ErrBadArgument].
type Option func(*config) error

type config struct {
	data      []byte // nil: the client's default
	maxLeases int
	maxHold   time.Duration // 0: no limit
	policy    connstate.ErrorPolicy
	plain     bool // a hold's context is like any other
	lend      lending
	ahead     *Queue // nil, or the queue that must be empty for TryAcquire
	async     bool   // Release does not wait for the answer
}

// WithData sets the data of our nodes, for people who look at the queue. The default is the client's default
// data: see framework.WithDefaultData.
func WithData(data []byte) Option {
	return func(c *config) error {
		c.data = append([]byte{}, data...) // not nil, even if data are
		return nil
	}
}

// WithMaxLeases sets how many can hold at a time. n must be at least 1, which is the default.
func WithMaxLeases(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("%w: %d leases", ErrBadArgument, n)
		}
		c.maxLeases = n
		return nil
	}
}

// WithMaxHold releases a lease when d has passed since it was acquired: the hold's context ends with
// [ErrMaxHold], then the node is deleted. d must be positive. The default is no limit.
func WithMaxHold(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("%w: max hold %v is not positive", ErrBadArgument, d)
		}
		c.maxHold = d
		return nil
	}
}

// WithErrorPolicy sets whether a suspended connection ends a hold. The default is the client's policy.
func WithErrorPolicy(p connstate.ErrorPolicy) Option {
	return func(c *config) error {
		if !slices.Contains([]connstate.ErrorPolicy{connstate.Standard, connstate.Session}, p) {
			return fmt.Errorf("%w: error policy %v", ErrBadArgument, p)
		}
		c.policy = p
		return nil
	}
}

// WithoutReentry makes Acquire treat the context of a hold like any other context: it acquires another lease. A
// semaphore does that. A mutex would wait for itself.
func WithoutReentry() Option {
	return func(c *config) error {
		c.plain = true
		return nil
	}
}

// WithQueueAhead makes TryAcquire return [ErrNotAcquired] also if somebody is in the queue first after our node
// was created, so that TryAcquire overtakes no waiter. Acquire ignores first. It is for recipes of two queues,
// such as a semaphore: waiters wait in first, and whoever holds first calls Acquire. Both queues must have the
// same client.
func WithQueueAhead(first *Queue) Option {
	return func(c *config) error {
		if first == nil {
			return fmt.Errorf("%w: nil queue", ErrBadArgument)
		}
		c.ahead = first
		return nil
	}
}
