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

func TestACacheIsMeasured(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.server.Create("/config", nil))
	require.NoError(t, b.server.Create("/config/db", []byte("12345")))
	require.NoError(t, b.server.Create("/config/web", []byte("123")))
	require.NoError(t, b.server.Create("/other", []byte("1")))
	client := b.client(t)
	c := b.watched(t, client, "/config", "configuration")
	other := b.watched(t, client, "/other", "other")
	require.NoError(t, c.Sync(testbed.Context(t)))
	require.NoError(t, other.Sync(testbed.Context(t)))

	of := []string{"cache", "configuration"}
	b.is(t, 3, "curator_cache_nodes", of...)
	b.is(t, 8, "curator_cache_bytes", of...)
	b.is(t, 0, "curator_cache_age_seconds", of...)
	b.is(t, 1, "curator_cache_resyncs_total", of...)
	b.is(t, float64(c.Stats().Reads), "curator_cache_reads_total", of...)
	b.is(t, 1, "curator_cache_nodes", "cache", "other")
	b.is(t, 1, "curator_cache_bytes", "cache", "other")
	for _, total := range []string{"curator_cache_reads_total", "curator_cache_resyncs_total"} {
		assert.NotNil(t, b.series(t, total, of...).Counter, "%s is a counter", total)
	}

	before, _ := b.value(t, "curator_cache_reads_total", of...)
	require.NoError(t, b.server.Delete("/config/web"))
	require.NoError(t, b.server.Set("/config/db", []byte("1234567")))
	require.NoError(t, c.Sync(testbed.Context(t)))
	b.is(t, 2, "curator_cache_nodes", of...)
	b.is(t, 7, "curator_cache_bytes", of...)
	after, _ := b.value(t, "curator_cache_reads_total", of...)
	assert.Greater(t, after, before)

	// Without a server the copy stays, and grows old; with one again everything is read again.
	b.server.RefuseConnections(true)
	b.server.CutConnections()
	rises := func(than float64) float64 {
		var age float64
		testbed.Eventually(t, func() bool {
			age, _ = b.value(t, "curator_cache_age_seconds", of...)
			return age > than
		}, "the age of the copy")
		return age
	}
	rises(rises(0))
	b.is(t, 2, "curator_cache_nodes", of...)
	b.server.RefuseConnections(false)
	b.becomes(t, 0, "curator_cache_age_seconds", of...)
	b.is(t, 2, "curator_cache_resyncs_total", of...)

	require.NoError(t, c.Close())
	rises(rises(0))
	b.is(t, 2, "curator_cache_nodes", of...)
}

// TestAScrapeAsksNoServer: a scrape succeeds while no server answers.
func TestAScrapeAsksNoServer(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	c := b.watched(t, client, "/config", "configuration")
	require.NoError(t, c.Sync(testbed.Context(t)))
	n, err := node.Keep(testbed.Context(t), client, "/workers/7", nil)
	require.NoError(t, err)
	defer n.Close()
	collector, err := promobserve.NewNodeCollector(n, "worker")
	require.NoError(t, err)
	require.NoError(t, b.registry.Register(collector))

	b.server.Pause()
	b.is(t, 0, "curator_cache_nodes", "cache", "configuration")
	b.is(t, 1, "curator_node_present", "node", "worker")
	b.server.Resume()
}

func TestAKeptNodeIsPresentOrNot(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	n, err := node.Keep(testbed.Context(t), client, "/workers/7", nil)
	require.NoError(t, err)
	m, err := node.Join(testbed.Context(t), client, "/group", "7", nil)
	require.NoError(t, err)
	ofNode, err := promobserve.NewNodeCollector(n, "worker")
	require.NoError(t, err)
	ofMember, err := promobserve.NewMemberCollector(m, "member")
	require.NoError(t, err)
	b.registry.MustRegister(ofNode, ofMember)
	worker, member := []string{"node", "worker"}, []string{"node", "member"}
	b.is(t, 1, "curator_node_present", worker...)
	b.is(t, 1, "curator_node_present", member...)

	b.server.RefuseConnections(true)
	b.server.CutConnections()
	b.becomes(t, 0, "curator_node_present", worker...)
	b.becomes(t, 0, "curator_node_present", member...)
	b.server.RefuseConnections(false)
	b.becomes(t, 1, "curator_node_present", worker...)
	b.becomes(t, 1, "curator_node_present", member...)

	require.NoError(t, m.Close())
	b.is(t, 0, "curator_node_present", member...)
	b.is(t, 1, "curator_node_present", worker...)
	require.NoError(t, n.Close())
	b.is(t, 0, "curator_node_present", worker...)
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
