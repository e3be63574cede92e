package sim

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
)

// end releases in one of the ways that there are. alone says that it is the only one of its owner.
func (c *contender) end(h *held, alone bool) {
	var guard *zk.CheckVersionRequest
	if h.guard != nil && !c.Async && c.random.IntN(4) == 0 {
		guard = h.guard()
	}
	cause := context.Cause(h.ctx)
	if errors.Is(cause, lock.ErrReleased) {
		c.monitor.fail("released too early", "%s with %s, which has another hold of it", h.who, h.node)
	}
	var err error
	switch way := c.random.IntN(12); {
	case h.hold != nil && way == 0:
		err = c.releaseWith(h)
	case h.hold != nil && way < 3 && alone && !h.again && c.Recipe != "semaphore": // whose waiters would be overtaken
		c.requeue(h, cause)
		return
	default:
		err = h.release()
	}
	c.monitor.leave(h)
	switch {
	case cause != nil:
		c.monitor.count("lost: " + reason(cause))
	case err != nil:
		c.monitor.count("release failed: " + reason(err))
	}
	if err == nil && guard != nil {
		c.releasedGuard(h, guard)
	}
}

// releasedGuard requires that the guard of a released lock lets nothing through.
func (c *contender) releasedGuard(h *held, guard *zk.CheckVersionRequest) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := c.client.Multi(ctx, guard, &zk.CheckVersionRequest{Path: counter, Version: -1}); err == nil {
		c.monitor.fail("stale write", "the guard of %s with %s lets through after its release", h.who, h.node)
	}
}

// releaseWith releases and writes the counter in one transaction.
func (c *contender) releaseWith(h *held) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	value := 0
	ops := []any{&zk.CheckVersionRequest{Path: counter, Version: -1}}
	if !h.shared {
		if recipes[c.Recipe].most == 1 {
			data, _, err := c.client.Get(ctx, counter)
			if err == nil {
				value, err = strconv.Atoi(string(data))
			}
			if err != nil {
				return h.release()
			}
			value++
		}
		ops[0] = &zk.SetDataRequest{Path: counter, Data: []byte(strconv.Itoa(value)), Version: -1}
	}
	_, err := h.hold.ReleaseWith(ctx, ops...)
	switch {
	case err == nil && !h.shared:
		c.monitor.wrote(h, value)
		c.monitor.count("releases with a write")
	case retry.Unknown(err):
		c.monitor.count("guarded writes of unknown outcome")
	}
	return err
}

// requeue releases and acquires at the end of the queue. A lock that was lost it does not acquire.
func (c *contender) requeue(h *held, cause error) {
	limit, calm := 40*time.Second, c.calm.Load()
	if calm {
		limit = long
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := time.Now()
	ctx, node := withNode(ctx)
	next, err := h.hold.Requeue(ctx)
	c.monitor.leave(h)
	if err != nil {
		c.monitor.count("requeue failed: " + reason(err))
		if calm && cause == nil && errors.Is(err, context.DeadlineExceeded) {
			c.monitor.fail("stuck", "%s does not get through a second time after all is well: %v", c.name, err)
		}
		return
	}
	c.monitor.count("requeues")
	if *node == "" {
		*node = next.Path()
	}
	if at := c.monitor.goneSince(h.node); cause != nil || c.HandOff == 0 && !at.IsZero() && at.Before(began) {
		c.monitor.fail("requeue of a lost lock", "%s with %s: %v", h.who, h.node, cause)
	}
	again := c.of(next, c.owners.Add(1), h.shared, *node)
	again.again = true
	c.use([]*held{again})
}
