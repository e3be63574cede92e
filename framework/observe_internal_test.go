package framework

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestObservingCostsNothingWhenUnset compares an operation with the same without any hook.
func TestObservingCostsNothingWhenUnset(t *testing.T) {
	c := &core{ctx: context.Background(), cfg: defaults()}
	c.now.Set(func(n *connection) { n.link = &link{} })
	ctx := context.Background()
	attempt := func(*link) error { return nil }
	bare := testing.AllocsPerRun(1000, func() { _ = c.repeat(ctx, attempt, nil) })
	unset := testing.AllocsPerRun(1000, func() { _ = c.do(ctx, "get", "/a", attempt) })
	assert.Equal(t, bare, unset)

	c.observer = combine([]Observer{{Operation: func(context.Context, OperationEvent) {}}})
	set := testing.AllocsPerRun(1000, func() { _ = c.do(ctx, "get", "/a", attempt) })
	assert.Greater(t, set, unset, "this test can tell")
}
