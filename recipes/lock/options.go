package lock

import (
	"slices"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/recipes/internal/queue"
)

// Option configures a lock. Constructors refuse bad values with [framework.ErrBadArgument].
type Option = queue.Option

// WithData sets the data of our nodes, for people who look at the queue. The default is the client's default
// data: see [framework.WithDefaultData].
func WithData(data []byte) Option {
	return opt.Set(func(c *queue.Config) { c.Data = append([]byte{}, data...) }) // not nil, even if data are
}

// WithMaxLeases sets how many can hold at a time. n must be at least 1, which is the default.
func WithMaxLeases(n int) Option {
	return opt.Checked(n >= 1, func(c *queue.Config) { c.MaxLeases = n }, "%d leases, must be at least 1", n)
}

// WithMaxHold releases a lease when d has passed since it was acquired: the hold's context ends with
// [ErrMaxHold], then the node is deleted. d must be positive. The default is no limit.
func WithMaxHold(d time.Duration) Option {
	return opt.Checked(d > 0, func(c *queue.Config) { c.MaxHold = d }, "max hold %v is not positive", d)
}

// WithErrorPolicy sets whether a suspended connection ends a hold. The default is the client's policy.
func WithErrorPolicy(p connstate.ErrorPolicy) Option {
	known := slices.Contains([]connstate.ErrorPolicy{connstate.Standard, connstate.Session}, p)
	return opt.Checked(known, func(c *queue.Config) { c.Policy = p }, "error policy %v", p)
}

// WithAsyncRelease makes [Hold.Release] return when the delete of the node has been sent, without waiting for
// the answer. A following Acquire of the same client is sent directly after it. Release then reports no failure
// of the delete: if the connection is lost, the client deletes the node in the background, or the session ends; a
// refusal is logged.
// Until then nobody else acquires, and the hold's Guard still lets writes through. By default Release returns when the
// node is deleted.
func WithAsyncRelease() Option {
	return opt.Set(func(c *queue.Config) { c.Async = true })
}

// WithLocalHandOff hands a lease off in memory: if goroutines of one process wait for the same Queue, and
// nobody else is in the queue on the servers, Release gives the lease to the next goroutine instead of deleting
// the node. times limits how often it does so in a row, and within how long one node may hold in this way. Both
// must be positive. The default is no hand-off.
//
// What changes: only one goroutine of the Queue at a time has a node. The others wait in memory, first come
// first served, and [Queue.Participants] does not list them. As soon as anyone else is in the queue, leases are
// not handed off, and processes take turns.
//
// What does not change: each holder has a [Hold] of its own and is notified of every loss. A lease is not handed
// off after its holder has called [Hold.FencingToken], [Hold.Guard] or [Hold.Path]. So tokens still rise from
// holder to holder, and a guard fails after its hold was released.
//
// It needs one lease and the [Standard] driver, as in a mutex: otherwise New returns [framework.ErrBadArgument].
func WithLocalHandOff(times int, within time.Duration) Option {
	return opt.Checked(times >= 1 && within > 0, func(c *queue.Config) { c.Lending.Times, c.Lending.Within = times, within },
		"local hand-off %d times within %v", times, within)
}

// WithRetention keeps the lock's node after Release for the next Acquire of the same Queue, on any goroutine, which then takes it
// over without a request. d limits how long the node is kept without a holder; it must be positive. The default is no retention.
//
// While the node is kept nobody holds, but others see the node. As soon as another node is in the queue, of this library or of
// Curator for Java, the client deletes its own, so whoever waits gets the lock a round trip later than without retention. The node
// is also deleted when the connection is lost, when the session or the client ends, and a minute after it first held, or as long as
// [WithLocalHandOff] says. Two differences remain for others: TryAcquire without retention, and Java's acquire(0), find the lock taken
// while a node is kept; and who has a node that this client may not read waits as long.
//
// TryAcquire of a Queue with retention waits for about two round trips if one node is ahead, since that may be one that is kept.
//
// Goroutines of one Queue wait in memory, as with [WithLocalHandOff]. What that says about tokens is true here, too: a lease
// whose holder has called [Hold.FencingToken], [Hold.Guard] or [Hold.Path] is not kept. It needs one lease and the [Standard]
// driver, as in a mutex: otherwise New returns [framework.ErrBadArgument].
func WithRetention(d time.Duration) Option {
	return opt.Checked(d > 0, func(c *queue.Config) { c.Lending.Keep = d }, "retention for %v", d)
}
