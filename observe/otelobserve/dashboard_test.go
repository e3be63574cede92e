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

	"github.com/gocurator/curator/observe/otelobserve"
	"github.com/gocurator/curator/recipes/mutex"
)

// TestTheDashboardServesThisToo: exported to Prometheus, the metrics have the names that
// docs/dashboard.json asks for.
func TestTheDashboardServesThisToo(t *testing.T) {
	registry := prom.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry))
	require.NoError(t, err)
	b := newBed(t)
	b.observer, err = otelobserve.New(otelobserve.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))),
		otelobserve.WithLockLabel(func(path, _ string) string { return path }))
	require.NoError(t, err)
	m, err := mutex.New(b.client(t), "/lock")
	require.NoError(t, err)
	other, err := mutex.New(b.client(t), "/lock")
	require.NoError(t, err)
	require.NoError(t, m.Do(within(t), func(context.Context) error {
		_, err := other.TryAcquire(within(t))
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		return nil
	}))

	families, err := registry.Gather()
	require.NoError(t, err)
	exported := map[string]bool{}
	for _, f := range families {
		exported[f.GetName()] = true
	}
	file, err := os.ReadFile("../../docs/dashboard.json")
	require.NoError(t, err)
	names := regexp.MustCompile(`\bcurator_\w+`).FindAllString(string(file), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		assert.True(t, exported[regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")], name)
	}
}
