package promobserve

import (
	"fmt"
	"unicode/utf8"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/node"
)

// NewCacheCollector returns a collector for [cache.Cache.Stats]. Its metrics have the label "cache"
// with the value name, which must be unique within a registry. A scrape sends no request to
// ZooKeeper.
//
// It returns [framework.ErrBadArgument] if c is nil, or if name is empty or not UTF-8.
func NewCacheCollector(c *cache.Cache, name string) (prom.Collector, error) {
	if c == nil {
		return nil, fmt.Errorf("promobserve: %w: nil cache", framework.ErrBadArgument)
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	desc := func(metric, help string) *prom.Desc {
		return prom.NewDesc(metric, help, nil, prom.Labels{"cache": name})
	}
	return &cacheCollector{
		cache:   c,
		nodes:   desc("curator_cache_nodes", "Nodes in the copy of a cache."),
		bytes:   desc("curator_cache_bytes", "Bytes of data in the copy of a cache."),
		age:     desc("curator_cache_age_seconds", "How long the copy of a cache may have been out of date; 0 while it is fresh."),
		reads:   desc("curator_cache_reads_total", "Requests that a cache has sent to read nodes and lists."),
		resyncs: desc("curator_cache_resyncs_total", "How often a cache has read everything, the first time included."),
	}, nil
}

// NewNodeCollector returns a collector for [node.Node.Present]. Its metric has the label "node"
// with the value name, which must be unique within a registry. A closed node counts as absent.
//
// It returns [framework.ErrBadArgument] if n is nil, or if name is empty or not UTF-8.
func NewNodeCollector(n *node.Node, name string) (prom.Collector, error) {
	if n == nil {
		return nil, fmt.Errorf("promobserve: %w: nil node", framework.ErrBadArgument)
	}
	return newPresence(n.Present, name)
}

// NewMemberCollector returns a collector for [node.Member.Present]. Its metric,
// curator_node_present, has the label "node" with the value name, which must be unique within a
// registry. A closed member counts as absent.
//
// It returns [framework.ErrBadArgument] if m is nil, or if name is empty or not UTF-8.
func NewMemberCollector(m *node.Member, name string) (prom.Collector, error) {
	if m == nil {
		return nil, fmt.Errorf("promobserve: %w: nil member", framework.ErrBadArgument)
	}
	return newPresence(m.Present, name)
}

func newPresence(present func() (bool, <-chan struct{}), name string) (prom.Collector, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return &presence{present, prom.NewDesc("curator_node_present", "1 while a kept node exists, otherwise 0.",
		nil, prom.Labels{"node": name})}, nil
}

// checkName refuses an empty name, and a name that a registry would refuse later.
func checkName(name string) error {
	if name == "" || !utf8.ValidString(name) {
		return fmt.Errorf("promobserve: %w: name %q must be non-empty UTF-8", framework.ErrBadArgument, name)
	}
	return nil
}

type cacheCollector struct {
	cache                             *cache.Cache
	nodes, bytes, age, reads, resyncs *prom.Desc
}

// Describe implements prometheus.Collector.
func (c *cacheCollector) Describe(descs chan<- *prom.Desc) {
	for _, d := range []*prom.Desc{c.nodes, c.bytes, c.age, c.reads, c.resyncs} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *cacheCollector) Collect(metrics chan<- prom.Metric) {
	s := c.cache.Stats()
	metrics <- prom.MustNewConstMetric(c.nodes, prom.GaugeValue, float64(s.Nodes))
	metrics <- prom.MustNewConstMetric(c.bytes, prom.GaugeValue, float64(s.Bytes))
	metrics <- prom.MustNewConstMetric(c.age, prom.GaugeValue, s.Age.Seconds())
	metrics <- prom.MustNewConstMetric(c.reads, prom.CounterValue, float64(s.Reads))
	metrics <- prom.MustNewConstMetric(c.resyncs, prom.CounterValue, float64(s.Resyncs))
}

type presence struct {
	present func() (bool, <-chan struct{})
	desc    *prom.Desc
}

// Describe implements prometheus.Collector.
func (p *presence) Describe(descs chan<- *prom.Desc) { descs <- p.desc }

// Collect implements prometheus.Collector.
func (p *presence) Collect(metrics chan<- prom.Metric) {
	value := 0.0
	if there, _ := p.present(); there {
		value = 1
	}
	metrics <- prom.MustNewConstMetric(p.desc, prom.GaugeValue, value)
}
