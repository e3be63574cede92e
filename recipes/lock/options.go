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
	plain     bool     // a hold's context is like any other
	handOff   *handOff // nil: none
	ahead     *Queue   // nil, or the queue that must be empty for TryAcquire
	async     bool     // Release does not wait for the answer
}

// WithData sets what our nodes hold, for people who look at the queue. The default is the
// client's default data, which is "host:pid" unless it was told otherwise.
func WithData(data []byte) Option {
	return func(c *config) error {
		c.data = append([]byte{}, data...) // not nil, even if data are
		return nil
	}
}

// WithMaxLeases sets how many can hold at a time, at least 1, which is the default.
func WithMaxLeases(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("%w: %d leases", ErrBadArgument, n)
		}
		c.maxLeases = n
		return nil
	}
}

// WithMaxHold lets go of a lease after d, counted from the moment it was acquired: the
// hold's context ends with [ErrMaxHold], then the node is deleted. d must be positive. The
// default is no limit.
func WithMaxHold(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("%w: max hold %v is not positive", ErrBadArgument, d)
		}
		c.maxHold = d
		return nil
	}
}

// WithErrorPolicy says whether a suspended connection ends a hold. The default is the
// client's policy.
func WithErrorPolicy(p connstate.ErrorPolicy) Option {
	return func(c *config) error {
		if !slices.Contains([]connstate.ErrorPolicy{connstate.Standard, connstate.Session}, p) {
			return fmt.Errorf("%w: error policy %v", ErrBadArgument, p)
		}
		c.policy = p
		return nil
	}
}

// WithoutReentry has Acquire take the context of a hold for a context like any other: it asks
// for a lease of its own. That is what a semaphore does; a mutex would wait for itself.
func WithoutReentry() Option {
	return func(c *config) error {
		c.plain = true
		return nil
	}
}

// WithQueueAhead makes TryAcquire return [ErrNotAcquired] also if anybody is in the queue other when our node has
// been made, so that nobody there is overtaken. Acquire does not look at other. It is for recipes of two queues: those
// who wait at all wait in other, and whoever is first there calls Acquire. Both must have the same client.
func WithQueueAhead(other *Queue) Option {
	return func(c *config) error {
		if other == nil {
			return fmt.Errorf("%w: nil queue", ErrBadArgument)
		}
		c.ahead = other
		return nil
	}
}
