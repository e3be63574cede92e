package otelobserve

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/observe/internal/labels"
	"github.com/gocurator/curator/recipes/lock"
)

// Attributes of spans and metrics.
const (
	pathKey      = attribute.Key("curator.path")     // path of the lock or operation; spans only
	nameKey      = attribute.Key("curator.name")     // the name of the lock's nodes; spans only
	nodeKey      = attribute.Key("curator.node")     // path of the lock's node in spans, name of a kept node in metrics
	aheadKey     = attribute.Key("curator.ahead")    // nodes; spans only
	attemptsKey  = attribute.Key("curator.attempts") // 1 without a retry; spans only
	opKey        = attribute.Key("curator.op")
	resultKey    = attribute.Key("curator.result")
	reasonKey    = attribute.Key("curator.reason")
	causeKey     = attribute.Key("curator.cause")
	kindKey      = attribute.Key("curator.kind")
	lockLabelKey = attribute.Key("curator.lock")  // metrics only
	stateKey     = attribute.Key("curator.state") // metrics only
	cacheKey     = attribute.Key("curator.cache") // metrics only

	serverKey = attribute.Key("server.address")
	errorKey  = attribute.Key("error.type") // the result, reason or cause of what failed
)

// spans turns events into spans. The end of a span finds it in the context that the events pass on.
type spans struct {
	tracer trace.Tracer
	server []attribute.KeyValue // the server's address, if it is known
}

// lockKey finds the lockSpan of one observer in a context.
type lockKey struct{ tracer trace.Tracer }

// lockSpan is the span of an acquire or a hold.
type lockSpan struct {
	span   trace.Span // "lock acquire" or "lock hold"
	parent trace.Span // the span in the context of Acquire
}

func (s spans) begin(ctx context.Context, parent trace.Span, name string, attrs ...attribute.KeyValue) context.Context {
	ctx, span := s.tracer.Start(trace.ContextWithSpan(ctx, parent), name, trace.WithAttributes(attrs...), trace.WithAttributes(s.server...))
	return context.WithValue(ctx, lockKey{s.tracer}, lockSpan{span, parent})
}

// in returns the span of ctx. If an event was not reported there is none, and the result has no
// effect.
func (s spans) in(ctx context.Context) lockSpan {
	if l, ok := ctx.Value(lockKey{s.tracer}).(lockSpan); ok {
		return l
	}
	none := trace.SpanFromContext(context.Background())
	return lockSpan{none, trace.SpanFromContext(ctx)}
}

func (s spans) acquiring(ctx context.Context, e lock.AcquiringEvent) context.Context {
	return s.begin(ctx, trace.SpanFromContext(ctx), "lock acquire", pathKey.String(e.Path), nameKey.String(e.Name), kindKey.String(labels.Kind(e.Name)))
}

func (s spans) joined(ctx context.Context, e lock.JoinedEvent) {
	var attrs []attribute.KeyValue
	if e.Ahead >= 0 {
		attrs = append(attrs, aheadKey.Int(e.Ahead))
	}
	s.in(ctx).span.AddEvent("joined", trace.WithAttributes(attrs...))
}

func (s spans) acquired(ctx context.Context, e lock.AcquiredEvent) context.Context {
	acquire := s.in(ctx)
	acquire.span.SetAttributes(nodeKey.String(e.Node))
	acquire.span.End()
	return s.begin(ctx, acquire.parent, "lock hold", pathKey.String(e.Path), nameKey.String(e.Name), kindKey.String(labels.Kind(e.Name)), nodeKey.String(e.Node))
}

func (s spans) notAcquired(ctx context.Context, e lock.NotAcquiredEvent) {
	span := s.in(ctx).span
	reason := labels.Reason(e.Err)
	span.SetAttributes(reasonKey.String(reason))
	if reason != "held" { // an answer to TryAcquire, and no failure
		fail(span, e.Err, reason)
	}
	span.End()
}

func (s spans) ended(ctx context.Context, e lock.EndedEvent) {
	span := s.in(ctx).span
	cause := labels.Cause(e.Cause)
	span.SetAttributes(causeKey.String(cause))
	if labels.IsLoss(e.Cause) {
		fail(span, e.Cause, cause)
	}
	span.End()
}

// answers are the results that do not mark a span as failed. The server has answered, and the
// caller decides whether the answer is an error.
var answers = []string{"ok", "no_node", "node_exists", "bad_version", "not_empty"}

func (s spans) operation(ctx context.Context, e framework.OperationEvent) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return
	}
	if e.Op == "connect" && e.Err == nil {
		return // every acquire asks for the session, and nearly always has it
	}
	_, span := s.tracer.Start(ctx, "zookeeper "+e.Op, trace.WithTimestamp(e.Began), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(s.server...))
	result := labels.Result(e.Err)
	span.SetAttributes(opKey.String(e.Op), pathKey.String(e.Path), attemptsKey.Int(e.Attempts), resultKey.String(result))
	if !slices.Contains(answers, result) {
		fail(span, e.Err, result, trace.WithTimestamp(e.Began.Add(e.Duration)))
	}
	span.End(trace.WithTimestamp(e.Began.Add(e.Duration)))
}

// fail marks a span as failed.
func fail(span trace.Span, err error, word string, opts ...trace.EventOption) {
	span.RecordError(err, opts...)
	span.SetAttributes(errorKey.String(word))
	span.SetStatus(codes.Error, word)
}
