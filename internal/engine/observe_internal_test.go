package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine/wire"
)

// TestObservingCostsNothingWhenUnset compares an operation with the same without any hook.
func TestObservingCostsNothingWhenUnset(t *testing.T) {
	ctx := context.Background()
	c := Client{core: &core{life: life{ctx: ctx}}}
	session := &Session{ctx: ctx}
	c.now.Set(func(n *inUse) { n.link = &Connection{Conn: wire.New(new(conn.Conn), session), session: session} })
	attempt := func(*Connection) error { return nil }
	bare := testing.AllocsPerRun(1000, func() { _, _ = c.repeat(ctx, false, attempt) })
	unset := testing.AllocsPerRun(1000, func() { _ = c.Do(ctx, "get", "/a", attempt) })
	assert.Equal(t, bare, unset)

	var last *Operation
	c.cfg.Operation = func(_ context.Context, e Operation) { last = &e }
	set := testing.AllocsPerRun(1000, func() { _ = c.Do(ctx, "get", "/a", attempt) })
	assert.Greater(t, set, unset, "an event costs allocations")
	assert.Equal(t, "/a", last.Path)
}
