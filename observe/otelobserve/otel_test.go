package otelobserve_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/observe/otelobserve"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bed is a server, and an option whose metrics and spans are kept.
type bed struct {
	server   *zktest.Server
	reader   *sdkmetric.ManualReader
	meters   *sdkmetric.MeterProvider
	tracers  *sdktrace.TracerProvider
	recorder *tracetest.SpanRecorder
	observed framework.Option
}

func newBed(t *testing.T, opts ...otelobserve.Option) *bed {
	t.Helper()
	b := &bed{server: zktest.NewServer(t), reader: sdkmetric.NewManualReader(), recorder: tracetest.NewSpanRecorder()}
	b.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(b.recorder))
	b.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.reader))
	var err error
	b.observed, err = otelobserve.New(append(opts,
		otelobserve.WithMeterProvider(b.meters), otelobserve.WithTracerProvider(b.tracers))...)
	require.NoError(t, err)
	return b
}

func (b *bed) client(t *testing.T) *framework.Client {
	t.Helper()
	return testbed.On(b.server).Client(t, b.observed)
}

// value returns the value of the series with these attributes (name, value, ...): for a histogram
// the number of observations. sum is the sum of the observations.
func (b *bed) value(t *testing.T, name string, attrs ...string) (v, sum float64, ok bool) {
	t.Helper()
	var set []attribute.KeyValue
	for i := 0; i < len(attrs); i += 2 {
		set = append(set, attribute.String(attrs[i], attrs[i+1]))
	}
	want := attribute.NewSet(set...)
	var all metricdata.ResourceMetrics
	require.NoError(t, b.reader.Collect(t.Context(), &all))
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					if p.Attributes.Equals(&want) {
						return float64(p.Value), 0, true
					}
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					if p.Attributes.Equals(&want) {
						return float64(p.Value), 0, true
					}
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					if p.Attributes.Equals(&want) {
						return p.Value, 0, true
					}
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					if p.Attributes.Equals(&want) {
						return float64(p.Count), float64(p.Sum), true
					}
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					if p.Attributes.Equals(&want) {
						return float64(p.Count), p.Sum, true
					}
				}
			}
		}
	}
	return 0, 0, false
}

func (b *bed) is(t *testing.T, want float64, name string, attrs ...string) {
	t.Helper()
	got, _, ok := b.value(t, name, attrs...)
	assert.True(t, ok, "%s %v is there", name, attrs)
	assert.Equal(t, want, got, "%s %v", name, attrs)
}

func (b *bed) becomes(t *testing.T, want float64, name string, attrs ...string) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		got, _, _ := b.value(t, name, attrs...)
		return got == want
	}, fmt.Sprint(name, attrs))
}

// spans are those with a name that have ended.
func (b *bed) spans(name string) []sdktrace.ReadOnlySpan {
	var spans []sdktrace.ReadOnlySpan
	for _, s := range b.recorder.Ended() {
		if s.Name() == name {
			spans = append(spans, s)
		}
	}
	return spans
}

// span is the only one with a name.
func (b *bed) span(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	spans := b.spans(name)
	require.Len(t, spans, 1, name)
	return spans[0]
}

func attrs(s sdktrace.ReadOnlySpan) map[string]any {
	m := map[string]any{}
	for _, a := range s.Attributes() {
		m[string(a.Key)] = a.Value.AsInterface()
	}
	return m
}

func TestLocksAcquiredAndContended(t *testing.T) {
	b := newBed(t, otelobserve.WithLockLabel(func(path, kind string) string { return kind + " at " + path }))
	first, err := mutex.New(b.client(t), "/lock")
	require.NoError(t, err)
	second, err := mutex.New(b.client(t), "/lock")
	require.NoError(t, err)
	of := []string{"curator.lock", "mutex at /lock", "curator.kind", "mutex"}
	and := func(more ...string) []string { return append(more, of...) }

	hold, err := first.Acquire(testbed.Context(t))
	require.NoError(t, err)
	b.is(t, 1, "curator.lock.held", of...)
	b.is(t, 0, "curator.lock.waiting", of...)
	b.is(t, 1, "curator.lock.wait.duration", of...)
	b.is(t, 1, "curator.lock.queue_length", of...)

	_, err = second.TryAcquire(testbed.Context(t))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	b.is(t, 1, "curator.lock.not_acquired", and("curator.reason", "held")...)
	require.Len(t, b.spans("lock acquire"), 2)
	assert.Equal(t, codes.Unset, b.spans("lock acquire")[1].Status().Code, "held is an answer")

	impatient, cancel := context.WithCancel(testbed.Context(t))
	done := make(chan error, 1)
	go func() {
		_, err := second.Acquire(impatient)
		done <- err
	}()
	b.becomes(t, 2, "curator.lock.queue_length", of...)
	b.is(t, 1, "curator.lock.waiting", of...)
	_, ahead, _ := b.value(t, "curator.lock.queue_length", of...)
	assert.Equal(t, 1.0, ahead, "nobody was ahead of the first, and one of the second")
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	b.is(t, 1, "curator.lock.not_acquired", and("curator.reason", "canceled")...)
	b.is(t, 0, "curator.lock.waiting", of...)
	gaveUp := b.spans("lock acquire")[2]
	assert.Equal(t, codes.Error, gaveUp.Status().Code)
	assert.Equal(t, "canceled", attrs(gaveUp)["curator.reason"])
	assert.Equal(t, "canceled", attrs(gaveUp)["error.type"])
	require.NotEmpty(t, gaveUp.Events())
	assert.Equal(t, "joined", gaveUp.Events()[0].Name)
	assert.Equal(t, []attribute.KeyValue{attribute.Int("curator.ahead", 1)}, gaveUp.Events()[0].Attributes)

	require.NoError(t, hold.Release())
	b.is(t, 0, "curator.lock.held", of...)
	b.is(t, 1, "curator.lock.hold.duration", of...)
	_, held, _ := b.value(t, "curator.lock.hold.duration", of...)
	assert.Positive(t, held)
	_, _, lost := b.value(t, "curator.lock.losses", and("curator.cause", "released")...)
	assert.False(t, lost, "a release is no loss")
	b.is(t, 2, "curator.operation.duration", "curator.op", "create", "curator.result", "ok")
	b.is(t, 0, "curator.operation.retries", "curator.op", "create")
}

func TestSpansHangTogether(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	m, err := mutex.New(client, "/lock")
	require.NoError(t, err)

	ctx, yours := b.tracers.Tracer("test").Start(testbed.Context(t), "yours")
	hold, err := m.Acquire(ctx)
	require.NoError(t, err)
	_, _, err = client.Exists(hold.Context(), "/inside")
	require.NoError(t, err)
	_, _, err = client.Get(ctx, "/beside")
	require.Error(t, err)
	node := hold.Path()
	require.NoError(t, hold.Release())
	yours.End()

	acquire, held := b.span(t, "lock acquire"), b.span(t, "lock hold")
	create, exists, get := b.span(t, "zookeeper create"), b.span(t, "zookeeper exists"), b.span(t, "zookeeper get")
	assert.Equal(t, yours.SpanContext().SpanID(), acquire.Parent().SpanID())
	assert.Equal(t, yours.SpanContext().SpanID(), held.Parent().SpanID())
	assert.Equal(t, acquire.SpanContext().SpanID(), create.Parent().SpanID())
	assert.Equal(t, held.SpanContext().SpanID(), exists.Parent().SpanID())
	assert.Equal(t, yours.SpanContext().SpanID(), get.Parent().SpanID())
	for _, s := range b.recorder.Ended() {
		assert.Equal(t, yours.SpanContext().TraceID(), s.SpanContext().TraceID(), s.Name())
		assert.Equal(t, codes.Unset, s.Status().Code, s.Name())
		assert.False(t, s.EndTime().Before(s.StartTime()), s.Name())
	}
	assert.Empty(t, b.spans("zookeeper connect"))
	assert.Equal(t, map[string]any{"curator.path": "/lock", "curator.name": "lock-", "curator.kind": "mutex", "curator.node": node}, attrs(acquire))
	assert.Equal(t, map[string]any{"curator.path": "/lock", "curator.name": "lock-", "curator.kind": "mutex", "curator.node": node, "curator.cause": "released"}, attrs(held))
	assert.Equal(t, map[string]any{"curator.path": "/beside", "curator.op": "get", "curator.attempts": int64(1), "curator.result": "no_node"}, attrs(get))
}

func TestOperationsStartNoTraces(t *testing.T) {
	b := newBed(t)
	_, _, err := b.client(t).Exists(testbed.Context(t), "/a")
	require.NoError(t, err)
	assert.Empty(t, b.recorder.Started())
	b.is(t, 1, "curator.operation.duration", "curator.op", "exists", "curator.result", "ok")
}

// TestWhatHasNotHappenedIsZero: a series that begins with 1 is no rise to Prometheus.
func TestWhatHasNotHappenedIsZero(t *testing.T) {
	b := newBed(t)
	b.is(t, 0, "curator.connection.transitions", "curator.state", "lost")
	b.is(t, 0, "curator.connection.state", "curator.state", "suspended")
	m, err := mutex.New(b.client(t), "/lock")
	require.NoError(t, err)
	require.NoError(t, m.Do(testbed.Context(t), func(context.Context) error { return nil }))
	for _, cause := range []string{"session_lost", "suspended", "node_deleted", "revoked", "max_hold", "closed", "other"} {
		b.is(t, 0, "curator.lock.losses", "curator.kind", "mutex", "curator.cause", cause)
	}
}

func TestLossesByCause(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	m, err := mutex.New(client, "/lock", lock.WithErrorPolicy(connstate.LostEndsHold))
	require.NoError(t, err)
	hold, err := m.Acquire(testbed.Context(t))
	require.NoError(t, err)
	require.NoError(t, b.server.ExpireSession(hold.Session().ID()))
	b.becomes(t, 1, "curator.lock.losses", "curator.kind", "mutex", "curator.cause", "session_lost")
	b.is(t, 0, "curator.lock.held", "curator.kind", "mutex")
	b.is(t, 1, "curator.lock.hold.duration", "curator.kind", "mutex")
	b.becomes(t, 1, "curator.connection.transitions", "curator.state", "reconnected")
	b.is(t, 1, "curator.connection.transitions", "curator.state", "lost")
	testbed.Eventually(t, func() bool { return len(b.spans("lock hold")) == 1 }, "the end of the hold")
	held := b.span(t, "lock hold")
	assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: "session_lost"}, held.Status())
	assert.Equal(t, "session_lost", attrs(held)["curator.cause"])
	assert.Equal(t, "session_lost", attrs(held)["error.type"])
	require.Len(t, held.Events(), 1)
	assert.Equal(t, "exception", held.Events()[0].Name)
}

func TestRetriesAndResults(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	ctx, yours := b.tracers.Tracer("test").Start(testbed.Context(t), "yours")
	defer yours.End()
	lost := b.server.Inject(zktest.LoseReply, 0, zktest.OnOp("exists"))
	_, _, err := client.Exists(ctx, "/a")
	require.NoError(t, err)
	require.True(t, lost.Met())
	b.is(t, 1, "curator.operation.retries", "curator.op", "exists")
	b.is(t, 1, "curator.operation.duration", "curator.op", "exists", "curator.result", "ok")
	assert.Equal(t, int64(2), attrs(b.span(t, "zookeeper exists"))["curator.attempts"])

	client.Close()
	_, _, err = client.Get(ctx, "/a")
	require.ErrorIs(t, err, framework.ErrClosed)
	b.is(t, 1, "curator.operation.duration", "curator.op", "get", "curator.result", "closed")
	assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: "closed"}, b.span(t, "zookeeper get").Status())
	assert.Equal(t, "closed", attrs(b.span(t, "zookeeper get"))["error.type"])
}

func TestStatesOfSeveralClients(t *testing.T) {
	b := newBed(t)
	first, second := b.client(t), b.client(t)
	b.becomes(t, 2, "curator.connection.state", "curator.state", "connected")
	b.server.CutConnections()
	b.becomes(t, 2, "curator.connection.transitions", "curator.state", "reconnected")
	b.becomes(t, 2, "curator.connection.state", "curator.state", "connected")
	b.is(t, 2, "curator.connection.transitions", "curator.state", "suspended")
	first.Close()
	second.Close()
	b.is(t, 0, "curator.connection.state", "curator.state", "connected")
	b.is(t, 2, "curator.connection.transitions", "curator.state", "none")
}

// TestObserverThatDropsTheContext: another observer returns a context that is not derived from that
// of the acquire, so that the events after it find no span.
func TestObserverThatDropsTheContext(t *testing.T) {
	b := newBed(t)
	ctx, yours := b.tracers.Tracer("test").Start(testbed.Context(t), "yours")
	client := testbed.On(b.server).Client(t, b.observed, lock.WithObserver(lock.Observer{
		Acquiring: func(context.Context, lock.AcquiringEvent) context.Context { return ctx },
	}))
	m, err := mutex.New(client, "/lock")
	require.NoError(t, err)
	require.NoError(t, m.Do(testbed.Context(t), func(context.Context) error { return nil }))
	assert.True(t, yours.IsRecording(), "the caller ends it")
	yours.End()
	assert.Equal(t, yours.SpanContext().SpanID(), b.span(t, "lock hold").Parent().SpanID())
	assert.Empty(t, b.span(t, "yours").Events())
}

// TestSpansSayWhoAndWhere: spans have the server's address and the version of the module.
func TestSpansSayWhoAndWhere(t *testing.T) {
	b := newBed(t, otelobserve.WithServerAddress("zk.example.com"))
	ctx, yours := b.tracers.Tracer("test").Start(testbed.Context(t), "yours")
	m, err := mutex.New(b.client(t), "/lock")
	require.NoError(t, err)
	require.NoError(t, m.Do(ctx, func(context.Context) error { return nil }))
	yours.End()
	for _, name := range []string{"lock acquire", "lock hold", "zookeeper create"} {
		span := b.span(t, name)
		assert.Equal(t, "zk.example.com", attrs(span)["server.address"], name)
		assert.NotEmpty(t, span.InstrumentationScope().Version, name)
		assert.NotContains(t, attrs(span), "error.type", name)
	}
	var all metricdata.ResourceMetrics
	require.NoError(t, b.reader.Collect(t.Context(), &all))
	require.NotEmpty(t, all.ScopeMetrics)
	assert.NotEmpty(t, all.ScopeMetrics[0].Scope.Version)
}

// TestKindsHaveSeriesOfTheirOwn: readers, writers and a mutex on one path.
func TestKindsHaveSeriesOfTheirOwn(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	rw, err := rwlock.New(client, "/lock")
	require.NoError(t, err)
	m, err := mutex.New(client, "/lock")
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, rw.Read().Do(testbed.Context(t), func(context.Context) error { return nil }))
	}
	require.NoError(t, rw.Write().Do(testbed.Context(t), func(context.Context) error { return nil }))
	require.NoError(t, m.Do(testbed.Context(t), func(context.Context) error { return nil }))
	for kind, want := range map[string]float64{"mutex": 1, "write": 1, "read": 2} {
		b.is(t, want, "curator.lock.wait.duration", "curator.kind", kind)
	}
}

// TestTermsAreOfKindElection: a latch's terms have series of their own; a selector's nodes are a
// mutex's.
func TestTermsAreOfKindElection(t *testing.T) {
	for kind, opts := range map[string][]leader.Option{"election": nil, "mutex": {leader.WithSelector()}} {
		b := newBed(t)
		e, err := leader.New(b.client(t), "/election", opts...)
		require.NoError(t, err)
		term, err := e.Campaign(testbed.Context(t))
		require.NoError(t, err)
		b.is(t, 1, "curator.lock.held", "curator.kind", kind)
		require.NoError(t, term.Release())
		b.is(t, 0, "curator.lock.held", "curator.kind", kind)
		b.is(t, 1, "curator.lock.hold.duration", "curator.kind", kind)
		assert.Equal(t, kind, attrs(b.span(t, "lock hold"))["curator.kind"])
	}
}

// TestALabelThatIsCutInTheMiddleOfACharacter: the export of everything else would fail with text
// that is not UTF-8.
func TestALabelThatIsCutInTheMiddleOfACharacter(t *testing.T) {
	b := newBed(t, otelobserve.WithLockLabel(func(path, _ string) string { return path[:len("/caf\xc3")] }))
	m, err := mutex.New(b.client(t), "/caf\u00e9")
	require.NoError(t, err)
	hold, err := m.Acquire(testbed.Context(t))
	require.NoError(t, err)
	b.is(t, 1, "curator.lock.held", "curator.lock", "/caf\ufffd", "curator.kind", "mutex")
	require.NoError(t, hold.Release())
}

func TestBadArgumentsAreRefused(t *testing.T) {
	for name, opt := range map[string]otelobserve.Option{
		"nil": nil, "label": otelobserve.WithLockLabel(nil), "meters": otelobserve.WithMeterProvider(nil), "tracers": otelobserve.WithTracerProvider(nil),
		"server": otelobserve.WithServerAddress(""), "server that is not UTF-8": otelobserve.WithServerAddress("caf\xc3"),
	} {
		_, err := otelobserve.New(opt)
		assert.ErrorIs(t, err, framework.ErrBadArgument, name)
	}
	_, err := otelobserve.New()
	assert.NoError(t, err, "the global providers do")
}
