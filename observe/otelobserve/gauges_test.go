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

// watched creates a cache that is observed.
func (b *bed) watched(t *testing.T, client *framework.Client, path, name string) (*cache.Cache, metric.Registration) {
	t.Helper()
	c, err := cache.New(client, path)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	registration, err := otelobserve.ObserveCache(c, name, otelobserve.WithMeterProvider(b.meters))
	require.NoError(t, err)
	require.NoError(t, c.Sync(testbed.Context(t)))
	return c, registration
}

// rises waits until a value is greater than it was.
func (b *bed) rises(t *testing.T, than float64, name string, attrs ...string) (value float64) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		value, _, _ = b.value(t, name, attrs...)
		return value > than
	}, name)
	return value
}

func TestACacheIsMeasured(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.server.Create("/config", nil))
	require.NoError(t, b.server.Create("/config/db", []byte("12345")))
	require.NoError(t, b.server.Create("/config/web", []byte("123")))
	require.NoError(t, b.server.Create("/other", []byte("1")))
	client, of := b.client(t), []string{"curator.cache", "configuration"}
	c, _ := b.watched(t, client, "/config", "configuration")
	_, other := b.watched(t, client, "/other", "other")

	b.is(t, 3, "curator.cache.nodes", of...)
	b.is(t, 8, "curator.cache.bytes", of...)
	b.is(t, 0, "curator.cache.age", of...)
	b.is(t, 1, "curator.cache.resyncs", of...)
	b.is(t, float64(c.Stats().Reads), "curator.cache.reads", of...)
	b.is(t, 1, "curator.cache.nodes", "curator.cache", "other")
	for _, total := range []string{"curator.cache.reads", "curator.cache.resyncs"} {
		assert.True(t, b.isCounter(t, total), "%s only rises", total)
	}

	before, _, _ := b.value(t, "curator.cache.reads", of...)
	require.NoError(t, b.server.Delete("/config/web"))
	require.NoError(t, b.server.Set("/config/db", []byte("1234567")))
	require.NoError(t, c.Sync(testbed.Context(t)))
	b.is(t, 2, "curator.cache.nodes", of...)
	b.is(t, 7, "curator.cache.bytes", of...)
	b.rises(t, before, "curator.cache.reads", of...)

	// Without a server the copy stays, and grows old; with one again everything is read again.
	b.server.RefuseConnections(true)
	b.server.CutConnections()
	b.rises(t, b.rises(t, 0, "curator.cache.age", of...), "curator.cache.age", of...)
	b.is(t, 2, "curator.cache.nodes", of...)
	b.server.RefuseConnections(false)
	b.becomes(t, 0, "curator.cache.age", of...)
	b.is(t, 2, "curator.cache.resyncs", of...)

	require.NoError(t, other.Unregister())
	_, _, found := b.value(t, "curator.cache.nodes", "curator.cache", "other")
	assert.False(t, found, "nothing is reported of a cache that is not observed any more")
	require.NoError(t, c.Close())
	b.rises(t, b.rises(t, 0, "curator.cache.age", of...), "curator.cache.age", of...)
	b.is(t, 2, "curator.cache.nodes", of...)
}

// isCounter reports whether a metric is a sum that never falls.
func (b *bed) isCounter(t *testing.T, name string) bool {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, b.reader.Collect(t.Context(), &all))
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == name {
				return sum.IsMonotonic
			}
		}
	}
	return false
}

// TestACollectionAsksNoServer: it works while no server answers.
func TestACollectionAsksNoServer(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	b.watched(t, client, "/config", "configuration")
	n, err := node.Keep(testbed.Context(t), client, "/workers/7", nil)
	require.NoError(t, err)
	defer n.Close()
	_, err = otelobserve.ObserveNode(n, "worker", otelobserve.WithMeterProvider(b.meters))
	require.NoError(t, err)

	b.server.Pause()
	b.is(t, 0, "curator.cache.nodes", "curator.cache", "configuration")
	b.is(t, 1, "curator.node.present", "curator.node", "worker")
	b.server.Resume()
}

func TestAKeptNodeIsPresentOrNot(t *testing.T) {
	b := newBed(t)
	client, meters := b.client(t), otelobserve.WithMeterProvider(b.meters)
	n, err := node.Keep(testbed.Context(t), client, "/workers/7", nil)
	require.NoError(t, err)
	m, err := node.Join(testbed.Context(t), client, "/group", "7", nil)
	require.NoError(t, err)
	_, err = otelobserve.ObserveNode(n, "worker", meters)
	require.NoError(t, err)
	_, err = otelobserve.ObserveMember(m, "member", meters)
	require.NoError(t, err)
	worker, member := []string{"curator.node", "worker"}, []string{"curator.node", "member"}
	b.is(t, 1, "curator.node.present", worker...)
	b.is(t, 1, "curator.node.present", member...)

	b.server.RefuseConnections(true)
	b.server.CutConnections()
	b.becomes(t, 0, "curator.node.present", worker...)
	b.becomes(t, 0, "curator.node.present", member...)
	b.server.RefuseConnections(false)
	b.becomes(t, 1, "curator.node.present", worker...)
	b.becomes(t, 1, "curator.node.present", member...)

	require.NoError(t, m.Close())
	b.is(t, 0, "curator.node.present", member...)
	b.is(t, 1, "curator.node.present", worker...)
	require.NoError(t, n.Close())
	b.is(t, 0, "curator.node.present", worker...)
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
