package once

import (
	"time"

	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/recipes/lock"
)

// Option configures a job. [New] returns [framework.ErrBadArgument] for invalid values. All
// processes that run the job must use the same options.
type Option func(*config) error

// config is what options set.
type config struct {
	keep     int
	interval time.Duration // between successes; 0: none
	missed   time.Duration // how late a firing may run; 0: without limit
	lock     []lock.Option
}

const (
	defaultKeep = 100
	maxKeep     = 1000
)

// WithKeep sets how many successes are recorded, from 1 to 1,000. A key that is older runs again.
// The default is 100.
//
// New returns [framework.ErrBadArgument] if so many records might exceed the client's limit of a
// request: see [framework.WithMaxRequest].
func WithKeep(n int) Option {
	return opt.Checked(n >= 1 && n <= maxKeep, func(c *config) { c.keep = n }, "keep %d, must be 1 to %d", n, maxKeep)
}

// WithMinInterval lets a function run only if d, which must be positive, has passed since the last
// success of any key, by the servers' clock. Otherwise Do and TryDo return [ErrTooSoon]. The
// default is no interval.
func WithMinInterval(d time.Duration) Option {
	return opt.Checked(d > 0, func(c *config) { c.interval = d }, "interval %v, must be positive", d)
}

// WithMissed lets [Once.Run] skip a firing that is more than d late, by the servers' clock. d must
// be positive. The default is no limit: after an outage the latest missed firing runs.
func WithMissed(d time.Duration) Option {
	return opt.Checked(d > 0, func(c *config) { c.missed = d }, "missed %v, must be positive", d)
}

// WithLock sets options of the lock: [lock.WithData], whose text is [Record.By],
// [lock.WithMaxHold], [lock.WithLockDelay] and [lock.WithErrorPolicy]. Record.By does not follow
// [lock.WithDataFunc]. New refuses lock.WithMaxLeases, except 1, and lock.WithRetention.
func WithLock(opts ...lock.Option) Option {
	return opt.Set(func(c *config) { c.lock = append(c.lock, opts...) })
}
