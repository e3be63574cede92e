package otelobserve_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/observe/otelobserve"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/node"
)

func (b *bed) Rises(t *testing.T, name string, _ ...string) bool {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, b.reader.Collect(t.Context(), &all))
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "curator."+name {
				return sum.IsMonotonic
			}
		}
	}
	return false
}

func (b *bed) ObserveCache(t *testing.T, c *cache.Cache, name string) {
	t.Helper()
	_, err := otelobserve.ObserveCache(c, name, otelobserve.WithMeterProvider(b.meters))
	require.NoError(t, err)
}

func (b *bed) ObserveNode(t *testing.T, n *node.Node, name string) {
	t.Helper()
	_, err := otelobserve.ObserveNode(n, name, otelobserve.WithMeterProvider(b.meters))
	require.NoError(t, err)
}

func (b *bed) ObserveMember(t *testing.T, m *node.Member, name string) {
	t.Helper()
	_, err := otelobserve.ObserveMember(m, name, otelobserve.WithMeterProvider(b.meters))
	require.NoError(t, err)
}

func TestUnregister(t *testing.T) {
	b := newBed(t)
	c, err := cache.New(b.client(t), "/config")
	require.NoError(t, err)
	defer c.Close()
	registration, err := otelobserve.ObserveCache(c, "configuration", otelobserve.WithMeterProvider(b.meters))
	require.NoError(t, err)
	_, _, found := b.Value(t, "cache.nodes", "cache", "configuration")
	require.True(t, found)
	require.NoError(t, registration.Unregister())
	_, _, found = b.Value(t, "cache.nodes", "cache", "configuration")
	assert.False(t, found, "nothing is reported of a cache that is not observed any more")
}

func TestBadArgumentsOfGaugesAreRefused(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	c, err := cache.New(client, "/config")
	require.NoError(t, err)
	defer c.Close()
	n, err := node.Keep(testbed.Context(t), client, "/workers/7", nil)
	require.NoError(t, err)
	defer n.Close()
	for what, observe := range map[string]func() (metric.Registration, error){
		"nil cache":   func() (metric.Registration, error) { return otelobserve.ObserveCache(nil, "a") },
		"nil node":    func() (metric.Registration, error) { return otelobserve.ObserveNode(nil, "a") },
		"nil member":  func() (metric.Registration, error) { return otelobserve.ObserveMember(nil, "a") },
		"no name":     func() (metric.Registration, error) { return otelobserve.ObserveCache(c, "") },
		"not UTF-8":   func() (metric.Registration, error) { return otelobserve.ObserveNode(n, "\xff") },
		"nil option":  func() (metric.Registration, error) { return otelobserve.ObserveCache(c, "a", nil) },
		"nil option2": func() (metric.Registration, error) { return otelobserve.ObserveNode(n, "a", nil) },
	} {
		registration, err := observe()
		assert.ErrorIs(t, err, framework.ErrBadArgument, what)
		assert.Nil(t, registration, what)
	}
	registration, err := otelobserve.ObserveCache(c, "a")
	require.NoError(t, err, "the global provider does")
	require.NoError(t, registration.Unregister())
}
