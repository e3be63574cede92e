package otelobserve_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/metered"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/observe/otelobserve"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
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

// mutex returns the mutex /lock of a new client.
func (b *bed) mutex(t *testing.T, opts ...lock.Option) *mutex.Mutex {
	t.Helper()
	return testbed.Must(mutex.New(b.client(t), "/lock", opts...))
}

// yours begins the caller's span.
func (b *bed) yours(t *testing.T) (context.Context, trace.Span) {
	return b.tracers.Tracer("test").Start(testbed.Context(t), "yours")
}

func (b *bed) Option() framework.Option { return b.observed }

func (b *bed) EmptyHistograms() bool { return false }

func (b *bed) Value(t *testing.T, name string, attrs ...string) (v, sum float64, ok bool) {
	t.Helper()
	var set []attribute.KeyValue
	for i := 0; i < len(attrs); i += 2 {
		set = append(set, attribute.String("curator."+attrs[i], attrs[i+1]))
	}
	want := attribute.NewSet(set...)
	switch data := b.metric(t, name).(type) {
	case metricdata.Sum[int64]:
		return point(data.DataPoints, want)
	case metricdata.Gauge[int64]:
		return point(data.DataPoints, want)
	case metricdata.Gauge[float64]:
		return point(data.DataPoints, want)
	case metricdata.Histogram[int64]:
		return counted(data.DataPoints, want)
	case metricdata.Histogram[float64]:
		return counted(data.DataPoints, want)
	}
	return 0, 0, false
}

// metric returns the data of a metric, or nil.
func (b *bed) metric(t *testing.T, name string) metricdata.Aggregation {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, b.reader.Collect(t.Context(), &all))
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if m.Name == "curator."+name {
				return m.Data
			}
		}
	}
	return nil
}

func point[N int64 | float64](points []metricdata.DataPoint[N], want attribute.Set) (v, sum float64, ok bool) {
	for _, p := range points {
		if p.Attributes.Equals(&want) {
			return float64(p.Value), 0, true
		}
	}
	return 0, 0, false
}

func counted[N int64 | float64](all []metricdata.HistogramDataPoint[N], want attribute.Set) (v, sum float64, ok bool) {
	for _, p := range all {
		if p.Attributes.Equals(&want) {
			return float64(p.Count), float64(p.Sum), true
		}
	}
	return 0, 0, false
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

// TestSeries runs the cases of all adapters.
func TestSeries(t *testing.T) {
	metered.Run(t, func(t *testing.T, label metered.Label) metered.Adapter {
		if label == nil {
			return newBed(t)
		}
		return newBed(t, otelobserve.WithLockLabel(label))
	})
}

func TestSpansOfLocksThatAreNotAcquired(t *testing.T) {
	b := newBed(t)
	first, second := b.mutex(t), b.mutex(t)
	hold := testbed.Acquire(t, first)
	require.ErrorIs(t, testbed.Err(second.TryAcquire(testbed.Context(t))), lock.ErrNotAcquired)
	require.Len(t, b.spans("lock acquire"), 2)
	assert.Equal(t, codes.Unset, b.spans("lock acquire")[1].Status().Code, "held is an answer")

	impatient, cancel := context.WithCancel(testbed.Context(t))
	done := testbed.Go(func() error {
		_, err := second.Acquire(impatient)
		return err
	})
	testbed.Eventually(t, func() bool {
		joined, _, _ := b.Value(t, "lock.queue_length", "kind", "mutex")
		return joined == 2
	}, "the second in the queue")
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	gaveUp := b.spans("lock acquire")[2]
	assert.Equal(t, codes.Error, gaveUp.Status().Code)
	assert.Equal(t, "canceled", attrs(gaveUp)["curator.reason"])
	assert.Equal(t, "canceled", attrs(gaveUp)["error.type"])
	require.NotEmpty(t, gaveUp.Events())
	assert.Equal(t, "joined", gaveUp.Events()[0].Name)
	assert.Equal(t, []attribute.KeyValue{attribute.Int("curator.ahead", 1)}, gaveUp.Events()[0].Attributes)
	require.NoError(t, hold.Release())
}

func TestSpansHangTogether(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	m := testbed.Must(mutex.New(client, "/lock"))

	ctx, yours := b.yours(t)
	hold, err := m.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, testbed.Err(client.Exists(hold.Context(), "/inside")))
	require.Error(t, testbed.Err(client.Get(ctx, "/beside")))
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
	require.NoError(t, testbed.Err(b.client(t).Exists(testbed.Context(t), "/a")))
	assert.Empty(t, b.recorder.Started())
	count, _, _ := b.Value(t, "operation.duration", "op", "exists", "result", "ok")
	assert.Equal(t, 1.0, count)
}

func TestSpanOfALostHold(t *testing.T) {
	b := newBed(t)
	hold := testbed.Acquire(t, b.mutex(t, lock.WithErrorPolicy(connstate.LostEndsHold)))
	require.NoError(t, b.server.ExpireSession(hold.Session().ID()))
	testbed.Eventually(t, func() bool { return len(b.spans("lock hold")) == 1 }, "the end of the hold")
	held := b.span(t, "lock hold")
	assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: "session_lost"}, held.Status())
	assert.Equal(t, "session_lost", attrs(held)["curator.cause"])
	assert.Equal(t, "session_lost", attrs(held)["error.type"])
	require.Len(t, held.Events(), 1)
	assert.Equal(t, "exception", held.Events()[0].Name)
}

func TestSpansOfOperations(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	ctx, yours := b.yours(t)
	defer yours.End()
	lost := b.server.Inject(zktest.LoseReply, 0, zktest.OnOp("exists"))
	require.NoError(t, testbed.Err(client.Exists(ctx, "/a")))
	require.True(t, lost.Met())
	assert.Equal(t, int64(2), attrs(b.span(t, "zookeeper exists"))["curator.attempts"])

	client.Close()
	require.ErrorIs(t, testbed.Err(client.Get(ctx, "/a")), framework.ErrClosed)
	assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: "closed"}, b.span(t, "zookeeper get").Status())
	assert.Equal(t, "closed", attrs(b.span(t, "zookeeper get"))["error.type"])
}

// TestObserverThatDropsTheContext: another observer returns a context that is not derived from that
// of the acquire, so that the events after it find no span.
func TestObserverThatDropsTheContext(t *testing.T) {
	b := newBed(t)
	ctx, yours := b.yours(t)
	client := testbed.On(b.server).Client(t, b.observed, lock.WithObserver(lock.Observer{
		Acquiring: func(context.Context, lock.AcquiringEvent) context.Context { return ctx },
	}))
	m := testbed.Must(mutex.New(client, "/lock"))
	require.NoError(t, m.Do(testbed.Context(t), func(context.Context) error { return nil }))
	assert.True(t, yours.IsRecording(), "the caller ends it")
	yours.End()
	assert.Equal(t, yours.SpanContext().SpanID(), b.span(t, "lock hold").Parent().SpanID())
	assert.Empty(t, b.span(t, "yours").Events())
}

// TestSpansSayWhoAndWhere: spans have the server's address and the version of the module.
func TestSpansSayWhoAndWhere(t *testing.T) {
	b := newBed(t, otelobserve.WithServerAddress("zk.example.com"))
	ctx, yours := b.yours(t)
	require.NoError(t, b.mutex(t).Do(ctx, func(context.Context) error { return nil }))
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

// TestSpansOfTerms: a latch's terms have a separate kind; a selector's terms have the kind of a
// mutex.
func TestSpansOfTerms(t *testing.T) {
	for kind, opts := range map[string][]leader.Option{"election": nil, "mutex": {leader.WithSelector()}} {
		b := newBed(t)
		e := testbed.Must(leader.New(b.client(t), "/election", opts...))
		term := testbed.Must(e.Campaign(testbed.Context(t)))
		require.NoError(t, term.Release())
		assert.Equal(t, kind, attrs(b.span(t, "lock hold"))["curator.kind"])
	}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	for name, opt := range map[string]otelobserve.Option{
		"nil": nil, "label": otelobserve.WithLockLabel(nil), "meters": otelobserve.WithMeterProvider(nil), "tracers": otelobserve.WithTracerProvider(nil),
		"server": otelobserve.WithServerAddress(""), "server that is not UTF-8": otelobserve.WithServerAddress("caf\xc3"),
	} {
		assert.ErrorIs(t, testbed.Err(otelobserve.New(opt)), framework.ErrBadArgument, name)
	}
	assert.NoError(t, testbed.Err(otelobserve.New()), "the global providers do")
}
