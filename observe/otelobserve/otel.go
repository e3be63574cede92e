package otelobserve

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/observe/internal/labels"
	"github.com/gocurator/curator/recipes/lock"
)

// scope is the name of the instrumentation.
const scope = "github.com/gocurator/curator/observe/otelobserve"

// version returns the version of this module in the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == scope && m.Version != "" {
			return m.Version
		}
	}
	return "(devel)"
}

// Option configures an observer. [New] rejects invalid values with [framework.ErrBadArgument].
type Option func(*config) error

type config struct {
	meters    metric.MeterProvider
	tracers   trace.TracerProvider
	lockLabel func(path, kind string) string
	server    string // "" if it is not known
}

// WithMeterProvider sets the provider that receives the metrics. The default is the global
// provider.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) error {
		if p == nil {
			return fmt.Errorf("%w: nil meter provider", framework.ErrBadArgument)
		}
		c.meters = p
		return nil
	}
}

// WithTracerProvider sets the provider that receives the spans. The default is the global provider.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) error {
		if p == nil {
			return fmt.Errorf("%w: nil tracer provider", framework.ErrBadArgument)
		}
		c.tracers = p
		return nil
	}
}

// WithLockLabel sets the function that returns the value of the metrics' attribute curator.lock.
// name is called with the path of the lock, as passed to the lock's constructor, and with the
// attribute curator.kind.
//
// name must return few different values, and must be safe for concurrent use. Without the option,
// or if name returns "", the attribute is omitted.
func WithLockLabel(name func(path, kind string) string) Option {
	return func(c *config) error {
		if name == nil {
			return fmt.Errorf("%w: nil lock label", framework.ErrBadArgument)
		}
		c.lockLabel = name
		return nil
	}
}

// WithServerAddress sets the attribute "server.address" of spans, such as the host name or the
// connect string of the ensemble. Without the option the attribute is omitted.
func WithServerAddress(address string) Option {
	return func(c *config) error {
		if address == "" || !utf8.ValidString(address) { // exporters fail with anything else
			return fmt.Errorf("%w: server address %q must be non-empty UTF-8", framework.ErrBadArgument, address)
		}
		c.server = address
		return nil
	}
}

// New returns an option of [framework.New] that observes a client and all its locks. It can be
// passed to any number of clients.
//
// Errors are
//   - [framework.ErrBadArgument] if an option is nil or invalid;
//   - an error of the meter provider.
func New(opts ...Option) (framework.Option, error) {
	cfg, err := configure(opts)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.meter())
	if err != nil {
		return nil, fmt.Errorf("otelobserve: %w", err)
	}
	s := spans{tracer: cfg.tracers.Tracer(scope, trace.WithInstrumentationVersion(version()))}
	if cfg.server != "" {
		s.server = []attribute.KeyValue{serverKey.String(cfg.server)}
	}
	o := &observer{metrics: m, spans: s, lockLabel: cfg.lockLabel}
	o.zero()
	locks := lock.Observer{
		Acquiring:   o.acquiring,
		Joined:      o.joined,
		Acquired:    o.acquired,
		NotAcquired: o.notAcquired,
		Ended:       o.ended,
	}
	return opt.All(framework.WithObserver(framework.Observer{Operation: o.operation, State: o.state}), lock.WithObserver(locks)), nil
}

// configure applies options to the defaults.
func configure(opts []Option) (config, error) {
	cfg := config{
		meters:    otel.GetMeterProvider(),
		tracers:   otel.GetTracerProvider(),
		lockLabel: func(string, string) string { return "" },
	}
	for _, o := range opts {
		if o == nil {
			return cfg, fmt.Errorf("otelobserve: %w: nil option", framework.ErrBadArgument)
		}
		if err := o(&cfg); err != nil {
			return cfg, fmt.Errorf("otelobserve: %w", err)
		}
	}
	return cfg, nil
}

func (c config) meter() metric.Meter {
	return c.meters.Meter(scope, metric.WithInstrumentationVersion(version()))
}

// observer records each event as a metric, with the context that the span is in, so that samples
// can name their trace.
type observer struct {
	*metrics
	spans     spans
	lockLabel func(path, kind string) string
	seen      sync.Map // values of lockOf that have series
}

// metrics are the instruments.
type metrics struct {
	operations  metric.Float64Histogram
	retries     metric.Int64Counter
	states      metric.Int64UpDownCounter
	transitions metric.Int64Counter
	waiting     metric.Int64UpDownCounter
	held        metric.Int64UpDownCounter
	waits       metric.Float64Histogram
	failures    metric.Int64Counter
	holds       metric.Float64Histogram
	losses      metric.Int64Counter
	queueLength metric.Int64Histogram
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	var errs []error
	counter := func(name, unit, help string) metric.Int64Counter {
		i, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(help))
		errs = append(errs, err)
		return i
	}
	gauge := func(name, unit, help string) metric.Int64UpDownCounter {
		i, err := meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(help))
		errs = append(errs, err)
		return i
	}
	seconds := func(name, help string) metric.Float64Histogram {
		// A lock may be waited for and held for long. A view can say otherwise.
		i, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(help),
			metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600))
		errs = append(errs, err)
		return i
	}
	m := &metrics{
		operations:  seconds("curator.operation.duration", "Duration of ZooKeeper operations, with waiting and repeating."),
		retries:     counter("curator.operation.retries", "{attempt}", "Attempts of ZooKeeper operations after the first."),
		states:      gauge("curator.connection.state", "{client}", "Clients whose connection is in this state."),
		transitions: counter("curator.connection.transitions", "{transition}", "Changes of connections to this state."),
		waiting:     gauge("curator.lock.waiting", "{acquire}", "Acquires of locks that are under way."),
		held:        gauge("curator.lock.held", "{lease}", "Leases of locks that are held."),
		waits:       seconds("curator.lock.wait.duration", "Time it took to acquire a lock."),
		failures:    counter("curator.lock.not_acquired", "{acquire}", "Locks that were not acquired."),
		holds:       seconds("curator.lock.hold.duration", "Time for which a lock was held."),
		losses:      counter("curator.lock.losses", "{lease}", "Locks that were lost before they were released."),
	}
	var err error
	m.queueLength, err = meter.Int64Histogram("curator.lock.queue_length", metric.WithUnit("{node}"),
		metric.WithDescription("Nodes ahead in the queue of a lock when joining it."),
		metric.WithExplicitBucketBoundaries(0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000))
	return m, errors.Join(append(errs, err)...)
}

// zero creates the series of states with the value 0, so that the first change is an increase.
func (o *observer) zero() {
	ctx := context.Background()
	for _, s := range labels.States() {
		with := metric.WithAttributes(stateKey.String(labels.State(s)))
		o.transitions.Add(ctx, 0, with)
		if s != 0 {
			o.states.Add(ctx, 0, with)
		}
	}
}

// lockOf identifies the lock of a metric by its labels.
type lockOf struct{ label, kind string }

func (o *observer) lockOf(path, name string) lockOf {
	kind := labels.Kind(name)
	return lockOf{strings.ToValidUTF8(o.lockLabel(path, kind), "\ufffd"), kind} // exporters fail with anything else
}

// zeroLock creates the series of a lock with the value 0.
func (o *observer) zeroLock(ctx context.Context, of lockOf) {
	if _, seen := o.seen.LoadOrStore(of, true); seen {
		return
	}
	o.held.Add(ctx, 0, of.with())
	for _, cause := range labels.Losses() {
		o.losses.Add(ctx, 0, of.with(causeKey.String(cause)))
	}
}

// with returns the attributes of a metric of the lock.
func (of lockOf) with(more ...attribute.KeyValue) metric.MeasurementOption {
	more = append(more, kindKey.String(of.kind))
	if of.label != "" {
		more = append(more, lockLabelKey.String(of.label))
	}
	return metric.WithAttributes(more...)
}

func (o *observer) operation(ctx context.Context, e framework.OperationEvent) {
	op, result := opKey.String(e.Op), resultKey.String(labels.Result(e.Err))
	o.operations.Record(ctx, e.Duration.Seconds(), metric.WithAttributes(op, result))
	o.retries.Add(ctx, int64(max(e.Attempts-1, 0)), metric.WithAttributes(op))
	o.spans.operation(ctx, e)
}

func (o *observer) state(e framework.StateEvent) {
	ctx := context.Background()
	o.transitions.Add(ctx, 1, metric.WithAttributes(stateKey.String(labels.State(e.To))))
	// The zero state means that the client was created or closed.
	if e.From != 0 {
		o.states.Add(ctx, -1, metric.WithAttributes(stateKey.String(labels.Condition(e.From))))
	}
	if e.To != 0 {
		o.states.Add(ctx, 1, metric.WithAttributes(stateKey.String(labels.Condition(e.To))))
	}
}

func (o *observer) acquiring(ctx context.Context, e lock.AcquiringEvent) context.Context {
	of := o.lockOf(e.Path, e.Name)
	o.zeroLock(ctx, of)
	o.waiting.Add(ctx, 1, of.with())
	return o.spans.acquiring(ctx, e)
}

func (o *observer) joined(ctx context.Context, e lock.JoinedEvent) {
	if e.Ahead >= 0 {
		o.queueLength.Record(ctx, int64(e.Ahead), o.lockOf(e.Path, e.Name).with())
	}
	o.spans.joined(ctx, e)
}

func (o *observer) acquired(ctx context.Context, e lock.AcquiredEvent) context.Context {
	with := o.lockOf(e.Path, e.Name).with()
	o.waiting.Add(ctx, -1, with)
	o.held.Add(ctx, 1, with)
	o.waits.Record(ctx, e.Waited.Seconds(), with)
	return o.spans.acquired(ctx, e)
}

func (o *observer) notAcquired(ctx context.Context, e lock.NotAcquiredEvent) {
	o.waiting.Add(ctx, -1, o.lockOf(e.Path, e.Name).with())
	o.failures.Add(ctx, 1, o.lockOf(e.Path, e.Name).with(reasonKey.String(labels.Reason(e.Err))))
	o.spans.notAcquired(ctx, e)
}

func (o *observer) ended(ctx context.Context, e lock.EndedEvent) {
	with := o.lockOf(e.Path, e.Name).with()
	o.held.Add(ctx, -1, with)
	o.holds.Record(ctx, e.Held.Seconds(), with)
	if labels.IsLoss(e.Cause) {
		o.losses.Add(ctx, 1, o.lockOf(e.Path, e.Name).with(causeKey.String(labels.Cause(e.Cause))))
	}
	o.spans.ended(ctx, e)
}
