package otelobserve_test

import (
	"context"
	"os"
	"regexp"
	"testing"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/observe/otelobserve"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/node"
)

// TestTheDashboardsServeThisToo: exported to Prometheus, the metrics have the names that the
// dashboards of docs ask for.
func TestTheDashboardsServeThisToo(t *testing.T) {
	registry := prom.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry))
	require.NoError(t, err)
	meters := otelobserve.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)))
	b := newBed(t)
	b.observed, err = otelobserve.New(meters, otelobserve.WithLockLabel(func(path, _ string) string { return path }))
	require.NoError(t, err)
	m := b.mutex(t)
	require.NoError(t, m.Do(testbed.Context(t), func(context.Context) error {
		require.ErrorIs(t, testbed.Err(m.TryAcquire(testbed.Context(t))), lock.ErrNotAcquired)
		return nil
	}))
	holdAgainst(t, "../../docs/dashboard.json", registry)

	client := b.client(t)
	c := testbed.Must(cache.New(client, "/config"))
	defer c.Close()
	n := testbed.Must(node.Keep(testbed.Context(t), client, "/workers/7", nil))
	defer n.Close()
	require.NoError(t, testbed.Err(otelobserve.ObserveCache(c, "configuration", meters)))
	require.NoError(t, testbed.Err(otelobserve.ObserveNode(n, "worker", meters)))
	holdAgainst(t, "../../docs/dashboard-caches.json", registry)
}

// holdAgainst checks that every metric of a dashboard is exported.
func holdAgainst(t *testing.T, path string, registry *prom.Registry) {
	t.Helper()
	families := testbed.Must(registry.Gather())
	exported := map[string]bool{}
	for _, f := range families {
		exported[f.GetName()] = true
	}
	file := testbed.Must(os.ReadFile(path))
	names := regexp.MustCompile(`\bcurator_\w+`).FindAllString(string(file), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		assert.True(t, exported[regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")], name)
	}
}
