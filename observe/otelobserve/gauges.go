package otelobserve

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"go.opentelemetry.io/otel/metric"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/node"
)

// ObserveCache exports [cache.Cache.Stats] until the caller unregisters the returned registration.
// The metrics have the attribute curator.cache with the value name, which must be unique within a
// meter provider. ObserveCache uses only the option [WithMeterProvider].
//
// Errors are
//   - [framework.ErrBadArgument] if c or an option is nil, an option is invalid, or name is empty
//     or not UTF-8;
//   - an error of the meter provider.
func ObserveCache(c *cache.Cache, name string, opts ...Option) (metric.Registration, error) {
	if c == nil {
		return nil, fmt.Errorf("otelobserve: %w: nil cache", framework.ErrBadArgument)
	}
	meter, err := meterFor(name, opts)
	if err != nil {
		return nil, err
	}
	var errs [5]error
	var i struct {
		nodes, bytes   metric.Int64ObservableGauge
		age            metric.Float64ObservableGauge
		reads, resyncs metric.Int64ObservableCounter
	}
	i.nodes, errs[0] = meter.Int64ObservableGauge("curator.cache.nodes", metric.WithUnit("{node}"),
		metric.WithDescription("Nodes in the copy of a cache."))
	i.bytes, errs[1] = meter.Int64ObservableGauge("curator.cache.bytes", metric.WithUnit("By"),
		metric.WithDescription("Bytes of data in the copy of a cache."))
	i.age, errs[2] = meter.Float64ObservableGauge("curator.cache.age", metric.WithUnit("s"),
		metric.WithDescription("How long the copy of a cache may have been out of date; 0 while it is fresh."))
	i.reads, errs[3] = meter.Int64ObservableCounter("curator.cache.reads", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that a cache has sent to read nodes and lists."))
	i.resyncs, errs[4] = meter.Int64ObservableCounter("curator.cache.resyncs", metric.WithUnit("{resync}"),
		metric.WithDescription("How often a cache has read everything, the first time included."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("otelobserve: %w", err)
	}
	of := metric.WithAttributes(cacheKey.String(name))
	return registered(meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := c.Stats()
		o.ObserveInt64(i.nodes, int64(s.Nodes), of)
		o.ObserveInt64(i.bytes, s.Bytes, of)
		o.ObserveFloat64(i.age, s.Age.Seconds(), of)
		o.ObserveInt64(i.reads, s.Reads, of)
		o.ObserveInt64(i.resyncs, s.Resyncs, of)
		return nil
	}, i.nodes, i.bytes, i.age, i.reads, i.resyncs))
}

// ObserveNode exports whether a kept node exists, as reported by [node.Node.Present] during a
// collection. A closed node counts as absent. The metric has the attribute curator.node with the
// value name.
//
// The caller must unregister the returned registration. ObserveNode uses only the option
// [WithMeterProvider].
//
// Errors are
//   - [framework.ErrBadArgument] if n or an option is nil, an option is invalid, or name is empty
//     or not UTF-8;
//   - an error of the meter provider.
func ObserveNode(n *node.Node, name string, opts ...Option) (metric.Registration, error) {
	if n == nil {
		return nil, fmt.Errorf("otelobserve: %w: nil node", framework.ErrBadArgument)
	}
	return observePresence(n.Present, name, opts)
}

// ObserveMember exports whether the node of a group's member exists, as reported by its Present
// during a collection. A closed member counts as absent. The metric is curator.node.present with
// the attribute curator.node and the value name.
//
// The caller must unregister the returned registration. ObserveMember uses only the option
// [WithMeterProvider].
//
// Errors are
//   - [framework.ErrBadArgument] if m or an option is nil, an option is invalid, or name is empty
//     or not UTF-8;
//   - an error of the meter provider.
func ObserveMember(m *node.Member, name string, opts ...Option) (metric.Registration, error) {
	if m == nil {
		return nil, fmt.Errorf("otelobserve: %w: nil member", framework.ErrBadArgument)
	}
	return observePresence(m.Present, name, opts)
}

func observePresence(present func() (bool, <-chan struct{}), name string, opts []Option) (metric.Registration, error) {
	meter, err := meterFor(name, opts)
	if err != nil {
		return nil, err
	}
	gauge, err := meter.Int64ObservableGauge("curator.node.present", // with a unit of 1 Prometheus would call it a ratio
		metric.WithDescription("1 while a kept node exists, otherwise 0."))
	if err != nil {
		return nil, fmt.Errorf("otelobserve: %w", err)
	}
	of := metric.WithAttributes(nodeKey.String(name))
	return registered(meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		there, _ := present()
		value := int64(0)
		if there {
			value = 1
		}
		o.ObserveInt64(gauge, value, of)
		return nil
	}, gauge))
}

// meterFor returns the meter for a cache or node with this name.
func meterFor(name string, opts []Option) (metric.Meter, error) {
	if name == "" || !utf8.ValidString(name) {
		return nil, fmt.Errorf("otelobserve: %w: name %q must be non-empty UTF-8", framework.ErrBadArgument, name)
	}
	cfg, err := configure(opts)
	if err != nil {
		return nil, err
	}
	return cfg.meter(), nil
}

func registered(r metric.Registration, err error) (metric.Registration, error) {
	if err != nil {
		return nil, fmt.Errorf("otelobserve: %w", err)
	}
	return r, nil
}
