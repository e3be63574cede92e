package promobserve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/observe/internal/labels"
	"github.com/gocurator/curator/recipes/lock"
)

// Option configures the metrics. [New] rejects invalid values with [framework.ErrBadArgument].
type Option func(*config) error

type config struct {
	lockLabel func(path, kind string) string
	buckets   []float64 // in seconds
}

// WithLockLabel sets the function that returns the value of the label "lock". name is called with
// the path of the lock, as passed to the lock's constructor, and with the label "kind". It must
// return few different values, and must be safe for concurrent use.
//
// This option uses the path:
//
//	promobserve.WithLockLabel(func(path, kind string) string { return path })
func WithLockLabel(name func(path, kind string) string) Option {
	return func(c *config) error {
		if name == nil {
			return fmt.Errorf("%w: nil lock label", framework.ErrBadArgument)
		}
		c.lockLabel = name
		return nil
	}
}

// WithBuckets sets the buckets of all duration histograms, in seconds and in increasing order. The
// default is 0.5 ms to 1 h.
func WithBuckets(seconds ...float64) Option {
	return func(c *config) error {
		if len(seconds) == 0 || !slices.IsSorted(seconds) || len(slices.Compact(slices.Clone(seconds))) != len(seconds) {
			return fmt.Errorf("%w: buckets %v, must be increasing", framework.ErrBadArgument, seconds)
		}
		c.buckets = slices.Clone(seconds)
		return nil
	}
}

// metrics are the registered metrics.
type metrics struct {
	operation   *prom.HistogramVec // op, result
	retries     *prom.CounterVec   // op
	state       *prom.GaugeVec     // state
	transitions *prom.CounterVec   // state
	waiting     *prom.GaugeVec     // lock, kind
	held        *prom.GaugeVec     // lock, kind
	wait        *prom.HistogramVec // lock, kind
	notAcquired *prom.CounterVec   // lock, kind, reason
	hold        *prom.HistogramVec // lock, kind
	losses      *prom.CounterVec   // lock, kind, cause
	queueLength *prom.HistogramVec // lock, kind

	seen sync.Map // values of lock and kind that have series
}

// New registers the metrics with reg, and returns an option of [framework.New] that records them.
// The option can be passed to any number of clients, and also observes their locks.
//
// If New fails, no metric remains registered.
//
// Errors are
//   - [framework.ErrBadArgument] if reg is nil, or an option is nil or invalid;
//   - an error of reg, such as prometheus.AlreadyRegisteredError.
func New(reg prom.Registerer, opts ...Option) (framework.Option, error) {
	cfg := config{
		lockLabel: func(string, string) string { return "" },
		buckets:   []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600},
	}
	if reg == nil {
		return nil, fmt.Errorf("promobserve: %w: nil registerer", framework.ErrBadArgument)
	}
	for _, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("promobserve: %w: nil option", framework.ErrBadArgument)
		}
		if err := o(&cfg); err != nil {
			return nil, fmt.Errorf("promobserve: %w", err)
		}
	}
	m := newMetrics(cfg)
	if err := m.register(reg); err != nil {
		return nil, fmt.Errorf("promobserve: %w", err)
	}
	m.zero()
	return opt.All(framework.WithObserver(framework.Observer{Operation: m.operated, State: m.changed}), lock.WithObserver(m.locks(cfg.lockLabel))), nil
}

func newMetrics(cfg config) *metrics {
	counter := func(name, help string, labels ...string) *prom.CounterVec {
		return prom.NewCounterVec(prom.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prom.GaugeVec {
		return prom.NewGaugeVec(prom.GaugeOpts{Name: name, Help: help}, labels)
	}
	histogram := func(buckets []float64, name, help string, labels ...string) *prom.HistogramVec {
		return prom.NewHistogramVec(prom.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	lengths := []float64{0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000}
	return &metrics{
		operation:   histogram(cfg.buckets, "curator_operation_duration_seconds", "Duration of ZooKeeper operations, with waiting and repeating.", "op", "result"),
		retries:     counter("curator_operation_retries_total", "Attempts of ZooKeeper operations after the first.", "op"),
		state:       gauge("curator_connection_state", "Clients whose connection is in this state.", "state"),
		transitions: counter("curator_connection_transitions_total", "Changes of connections to this state.", "state"),
		waiting:     gauge("curator_lock_waiting", "Acquires of locks that are under way.", "lock", "kind"),
		held:        gauge("curator_lock_held", "Leases of locks that are held.", "lock", "kind"),
		wait:        histogram(cfg.buckets, "curator_lock_wait_duration_seconds", "Time it took to acquire a lock.", "lock", "kind"),
		notAcquired: counter("curator_lock_not_acquired_total", "Locks that were not acquired.", "lock", "kind", "reason"),
		hold:        histogram(cfg.buckets, "curator_lock_hold_duration_seconds", "Time for which a lock was held.", "lock", "kind"),
		losses:      counter("curator_lock_losses_total", "Locks that were lost before they were released.", "lock", "kind", "cause"),
		queueLength: histogram(lengths, "curator_lock_queue_length", "Nodes ahead in the queue of a lock when joining it.", "lock", "kind"),
	}
}

// register registers all or none.
func (m *metrics) register(reg prom.Registerer) error {
	all := []prom.Collector{m.operation, m.retries, m.state, m.transitions, m.waiting, m.held,
		m.wait, m.notAcquired, m.hold, m.losses, m.queueLength}
	for i, c := range all {
		if err := reg.Register(c); err != nil {
			for _, c := range all[:i] {
				reg.Unregister(c)
			}
			return err
		}
	}
	return nil
}

// zero creates the series of states with the value 0, so that the first change is an increase.
func (m *metrics) zero() {
	for _, s := range labels.States() {
		m.transitions.WithLabelValues(labels.State(s))
		if s != 0 {
			m.state.WithLabelValues(labels.State(s))
		}
	}
}

// lockLabels are the values of the labels of a metric about a lock.
type lockLabels struct{ lock, kind string }

// zeroLock creates the series of a lock with the value 0.
func (m *metrics) zeroLock(of lockLabels) {
	if _, seen := m.seen.LoadOrStore(of, true); seen {
		return
	}
	m.held.WithLabelValues(of.lock, of.kind)
	m.wait.WithLabelValues(of.lock, of.kind)
	for _, cause := range labels.Losses() {
		m.losses.WithLabelValues(of.lock, of.kind, cause)
	}
}

// locks is the observer of locks.
func (m *metrics) locks(label func(path, kind string) string) lock.Observer {
	of := func(path, name string) lockLabels {
		kind := labels.Kind(name)
		return lockLabels{strings.ToValidUTF8(label(path, kind), "\ufffd"), kind} // a registry panics over anything else
	}
	return lock.Observer{
		Acquiring: func(ctx context.Context, e lock.AcquiringEvent) context.Context {
			of := of(e.Path, e.Name)
			m.zeroLock(of)
			m.waiting.WithLabelValues(of.lock, of.kind).Inc()
			return ctx
		},
		Joined: func(_ context.Context, e lock.JoinedEvent) {
			if of := of(e.Path, e.Name); e.Ahead >= 0 {
				m.queueLength.WithLabelValues(of.lock, of.kind).Observe(float64(e.Ahead))
			}
		},
		Acquired: func(ctx context.Context, e lock.AcquiredEvent) context.Context {
			of := of(e.Path, e.Name)
			m.waiting.WithLabelValues(of.lock, of.kind).Dec()
			m.held.WithLabelValues(of.lock, of.kind).Inc()
			m.wait.WithLabelValues(of.lock, of.kind).Observe(e.Waited.Seconds())
			return ctx
		},
		NotAcquired: func(_ context.Context, e lock.NotAcquiredEvent) {
			of := of(e.Path, e.Name)
			m.waiting.WithLabelValues(of.lock, of.kind).Dec()
			m.notAcquired.WithLabelValues(of.lock, of.kind, labels.Reason(e.Err)).Inc()
		},
		Ended: func(_ context.Context, e lock.EndedEvent) {
			of := of(e.Path, e.Name)
			m.held.WithLabelValues(of.lock, of.kind).Dec()
			m.hold.WithLabelValues(of.lock, of.kind).Observe(e.Held.Seconds())
			if labels.IsLoss(e.Cause) {
				m.losses.WithLabelValues(of.lock, of.kind, labels.Cause(e.Cause)).Inc()
			}
		},
	}
}

// operated counts operations.
func (m *metrics) operated(_ context.Context, e framework.OperationEvent) {
	m.operation.WithLabelValues(e.Op, labels.Result(e.Err)).Observe(e.Duration.Seconds())
	m.retries.WithLabelValues(e.Op).Add(float64(max(e.Attempts-1, 0)))
}

// changed counts states.
func (m *metrics) changed(e framework.StateEvent) {
	m.transitions.WithLabelValues(labels.State(e.To)).Inc()
	// The zero state means that the client was created or closed.
	if e.From != 0 {
		m.state.WithLabelValues(labels.Condition(e.From)).Dec()
	}
	if e.To != 0 {
		m.state.WithLabelValues(labels.Condition(e.To)).Inc()
	}
}
