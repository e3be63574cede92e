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

// end releases, sometimes with a write in the same transaction.
func (c *contender) end(h *held) {
	if h.linger != nil {
		h.linger()
	}
	var guard *zk.CheckVersionRequest
	if h.guard != nil && c.random.IntN(4) == 0 {
		guard = h.guard()
	}
	cause := context.Cause(h.ctx)
	if errors.Is(cause, lock.ErrReleased) {
		c.monitor.fail("released too early", "%s with %s, which has another hold of it", h.who, h.node)
	}
	var err error
	if c.random.IntN(12) == 0 && h.hold != nil {
		err = c.releaseWith(h)
	} else {
		err = h.release()
	}
	if h.released != nil {
		h.released(err)
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
