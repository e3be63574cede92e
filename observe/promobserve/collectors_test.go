package promobserve_test

import (
	"testing"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
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
	require.NoError(t, b.ObserveCache(c, name))
	return c
}

func (b *bed) Rises(t *testing.T, name string, labels ...string) bool {
	t.Helper()
	return b.series(t, seriesName(name), labels...).Counter != nil
}

// register registers a new collector. It returns no error if there is a collector beside one.
func (b *bed) register(collector prom.Collector, err error) error {
	if collector == nil {
		return err
	}
	return b.registry.Register(collector)
}

func (b *bed) ObserveCache(c *cache.Cache, name string) error {
	return b.register(promobserve.NewCacheCollector(c, name))
}

func (b *bed) ObserveNode(n *node.Node, name string) error {
	return b.register(promobserve.NewNodeCollector(n, name))
}

func (b *bed) ObserveMember(m *node.Member, name string) error {
	return b.register(promobserve.NewMemberCollector(m, name))
}

func TestNamesOfCollectorsAreTheirOwn(t *testing.T) {
	b := newBed(t)
	c := b.watched(t, b.client(t), "/config", "configuration")
	again, err := promobserve.NewCacheCollector(c, "configuration")
	require.NoError(t, err)
	var already prom.AlreadyRegisteredError
	require.ErrorAs(t, b.registry.Register(again), &already)
	require.True(t, b.registry.Unregister(again), "an equal collector stands for the one that is registered")
	require.NoError(t, b.registry.Register(again))
}
