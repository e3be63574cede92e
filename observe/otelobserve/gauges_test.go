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
	sum, ok := b.metric(t, name).(metricdata.Sum[int64])
	return ok && sum.IsMonotonic
}

// observed returns the error of a registration, unless there is a registration beside it.
func observed(r metric.Registration, err error) error {
	if r == nil {
		return err
	}
	return nil
}

func (b *bed) ObserveCache(c *cache.Cache, name string) error {
	return observed(otelobserve.ObserveCache(c, name, otelobserve.WithMeterProvider(b.meters)))
}

func (b *bed) ObserveNode(n *node.Node, name string) error {
	return observed(otelobserve.ObserveNode(n, name, otelobserve.WithMeterProvider(b.meters)))
}

func (b *bed) ObserveMember(m *node.Member, name string) error {
	return observed(otelobserve.ObserveMember(m, name, otelobserve.WithMeterProvider(b.meters)))
}

func TestUnregister(t *testing.T) {
	b := newBed(t)
	c := testbed.Must(cache.New(b.client(t), "/config"))
	defer c.Close()
	registration, err := otelobserve.ObserveCache(c, "configuration", otelobserve.WithMeterProvider(b.meters))
	require.NoError(t, err)
	_, _, found := b.Value(t, "cache.nodes", "cache", "configuration")
	require.True(t, found)
	require.NoError(t, registration.Unregister())
	_, _, found = b.Value(t, "cache.nodes", "cache", "configuration")
	assert.False(t, found, "nothing is reported of a cache that is not observed any more")
}

func TestOptionsOfGauges(t *testing.T) {
	c := testbed.Must(cache.New(newBed(t).client(t), "/config"))
	defer c.Close()
	require.ErrorIs(t, observed(otelobserve.ObserveCache(c, "a", nil)), framework.ErrBadArgument)
	registration, err := otelobserve.ObserveCache(c, "a")
	require.NoError(t, err, "the global provider does")
	require.NoError(t, registration.Unregister())
}
