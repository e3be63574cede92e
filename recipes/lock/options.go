package lock

import (
	"context"
	"slices"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/recipes/internal/locking"
)

// Option configures a lock. Constructors return [framework.ErrBadArgument] for invalid values.
type Option func(*config) error

// config is what options set.
type config struct {
	data      []byte                       // of the nodes, not nil; at first the client's default
	dataFunc  func(context.Context) []byte // nil: data
	maxLeases int
	maxHold   time.Duration // 0: no limit
	policy    connstate.ErrorPolicy
	retention time.Duration            // how long a node is kept without a holder; 0: not at all
	delay     time.Duration            // before a hold after the death of a holder; 0: none
	reentry   bool                     // by WithReentry
	nesting   nesting                  // by the options: see nestingOf
	recipe    locking.Settings[*Queue] // what only recipes of this module set
}

// WithData sets the data of the lock's nodes, which identify a contender to operators. The default
// is the client's default data: see [framework.WithDefaultData].
func WithData(data []byte) Option {
	data = append([]byte{}, data...) // not nil, even if data are
	return opt.Set(func(c *config) { c.data = data })
}

// WithDataFunc sets the data of each of the lock's nodes to the result of f, such as the reason or
// the trace of an acquire. If f returns nil, the node has the data of [WithData], or the client's
// default data.
//
// f is called on the goroutine of Acquire, before each create, with the context of the acquire. It
// must be safe for concurrent use.
func WithDataFunc(f func(ctx context.Context) []byte) Option {
	return opt.Checked(f != nil, func(c *config) { c.dataFunc = f }, "nil function for the data")
}

// dataOf returns the data of a node that is created with ctx.
func (c *config) dataOf(ctx context.Context) []byte {
	if c.dataFunc != nil {
		if data := c.dataFunc(ctx); data != nil {
			return data
		}
	}
	return c.data
}

// WithMaxLeases sets the number of leases. n must be at least 1, which is the default.
func WithMaxLeases(n int) Option {
	return opt.Checked(n >= 1, func(c *config) { c.maxLeases = n }, "%d leases, must be at least 1", n)
}

// WithMaxHold releases a lease when d has passed since it was acquired: the hold's context is
// cancelled with [ErrMaxHold], then the node is deleted. d must be positive. The default is no
// limit.
func WithMaxHold(d time.Duration) Option {
	return opt.Checked(d > 0, func(c *config) { c.maxHold = d }, "max hold %v, must be positive", d)
}

// WithErrorPolicy sets whether a suspended connection ends a hold. The default is the client's
// policy.
func WithErrorPolicy(p connstate.ErrorPolicy) Option {
	known := slices.Contains([]connstate.ErrorPolicy{connstate.SuspendedEndsHold, connstate.LostEndsHold}, p)
	return opt.Checked(known, func(c *config) { c.policy = p }, "unknown error policy %v", p)
}

// WithRetention keeps the lock's node after Release for up to d. The next Acquire of the same Queue
// reuses it without a request. A goroutine that waits in the Queue receives it at once.
//
// d must be positive, and the lock must have one lease and the [Standard] driver, as a mutex has.
// The default is no retention.
//
// While the Queue is alone at its path, an acquire and a release take no request. After a pause of
// most of the session timeout a take-over needs one write, which proves that the session lives.
// After a pause of more than d, or when the node has been used for a minute, a node is created
// again.
//
// Only one goroutine of the Queue at a time has a node. The others wait in memory, first come,
// first served, and [Queue.Participants] does not list them. As soon as another node is in the
// queue, of this library or of Curator for Java, nodes are neither handed over nor kept: the client
// deletes its own, so that a waiter acquires a round trip later than without retention. A kept
// node is also deleted when the connection is lost, when the session or the client ends, and a
// minute after it first held.
//
// With retention the node outlives the hold. A check that relies on the node's path alone therefore
// accepts a former holder: use [Hold.Guard] or [Hold.FencingToken]. After a call of either the node
// is deleted at Release, so tokens rise from holder to holder, and a guard fails after its hold was
// released.
//
// Two differences remain for others. TryAcquire without retention, and Java's acquire(0), fail
// while a node is kept. A waiter whose node this client is not permitted to read waits
// for the full d, or the minute.
//
// TryAcquire of a Queue with retention waits for about two round trips if one node is ahead, since
// that may be a kept one.
func WithRetention(d time.Duration) Option {
	return opt.Checked(d > 0, func(c *config) { c.retention = d }, "retention %v, must be positive", d)
}
