package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestObservingCostsNothingWhenUnset compares an operation with the same without any hook.
func TestObservingCostsNothingWhenUnset(t *testing.T) {
	c := &core{life: life{ctx: context.Background()}}
	c.now.Set(func(n *inUse) { n.link = &Connection{} })
	ctx := context.Background()
	attempt := func(*Connection) error { return nil }
	bare := testing.AllocsPerRun(1000, func() { _ = c.repeat(ctx, attempt, nil) })
	unset := testing.AllocsPerRun(1000, func() { _ = c.Do(ctx, "get", "/a", attempt) })
	assert.Equal(t, bare, unset)

	c.cfg.Operation = func(context.Context, Operation) {}
	set := testing.AllocsPerRun(1000, func() { _ = c.Do(ctx, "get", "/a", attempt) })
	assert.Greater(t, set, unset, "this test can tell")
}
