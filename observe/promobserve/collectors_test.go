package promobserve_test

import (
	"testing"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/observe/promobserve"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/node"
)

// watched creates a cache with a collector.
func (b *bed) watched(t *testing.T, client *framework.Client, path, name string) *cache.Cache {
	t.Helper()
	c, err := cache.New(client, path)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	collector, err := promobserve.NewCacheCollector(c, name)
	require.NoError(t, err)
	require.NoError(t, b.registry.Register(collector))
	return c
}

func (b *bed) Rises(t *testing.T, name string, labels ...string) bool {
	t.Helper()
	return b.series(t, seriesName(name), labels...).Counter != nil
}

func (b *bed) ObserveCache(t *testing.T, c *cache.Cache, name string) {
	t.Helper()
	collector, err := promobserve.NewCacheCollector(c, name)
	require.NoError(t, err)
	require.NoError(t, b.registry.Register(collector))
}

func (b *bed) ObserveNode(t *testing.T, n *node.Node, name string) {
	t.Helper()
	collector, err := promobserve.NewNodeCollector(n, name)
	require.NoError(t, err)
	require.NoError(t, b.registry.Register(collector))
}

func (b *bed) ObserveMember(t *testing.T, m *node.Member, name string) {
	t.Helper()
	collector, err := promobserve.NewMemberCollector(m, name)
	require.NoError(t, err)
	require.NoError(t, b.registry.Register(collector))
}

func TestNamesOfCollectorsAreTheirOwn(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	c := b.watched(t, client, "/config", "configuration")
	again, err := promobserve.NewCacheCollector(c, "configuration")
	require.NoError(t, err)
	var already prom.AlreadyRegisteredError
	require.ErrorAs(t, b.registry.Register(again), &already)
	require.True(t, b.registry.Unregister(again), "an equal collector stands for the one that is registered")
	require.NoError(t, b.registry.Register(again))
}

func TestCollectorsRefuseBadArguments(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	c, err := cache.New(client, "/config")
	require.NoError(t, err)
	defer c.Close()
	n, err := node.Keep(testbed.Context(t), client, "/workers/7", nil)
	require.NoError(t, err)
	defer n.Close()
	m, err := node.Join(testbed.Context(t), client, "/group", "7", nil)
	require.NoError(t, err)
	defer m.Close()

	for what, make := range map[string]func() (prom.Collector, error){
		"nil cache":       func() (prom.Collector, error) { return promobserve.NewCacheCollector(nil, "a") },
		"nil node":        func() (prom.Collector, error) { return promobserve.NewNodeCollector(nil, "a") },
		"nil member":      func() (prom.Collector, error) { return promobserve.NewMemberCollector(nil, "a") },
		"cache, no name":  func() (prom.Collector, error) { return promobserve.NewCacheCollector(c, "") },
		"node, no name":   func() (prom.Collector, error) { return promobserve.NewNodeCollector(n, "") },
		"member, no name": func() (prom.Collector, error) { return promobserve.NewMemberCollector(m, "") },
		"not UTF-8":       func() (prom.Collector, error) { return promobserve.NewCacheCollector(c, "\xff") },
	} {
		collector, err := make()
		assert.ErrorIs(t, err, framework.ErrBadArgument, what)
		assert.Nil(t, collector, what)
	}
}
