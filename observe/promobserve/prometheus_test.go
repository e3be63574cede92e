package promobserve_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/metered"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/observe/promobserve"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bed is a server, and an option that fills a registry.
type bed struct {
	server   *zktest.Server
	registry *prom.Registry
	observed framework.Option
}

func newBed(t *testing.T, opts ...promobserve.Option) *bed {
	t.Helper()
	b := &bed{server: zktest.NewServer(t), registry: prom.NewPedanticRegistry()}
	var err error
	b.observed, err = promobserve.New(b.registry, opts...)
	require.NoError(t, err)
	return b
}

func (b *bed) client(t *testing.T) *framework.Client {
	t.Helper()
	return testbed.On(b.server).Client(t, b.observed)
}

func (b *bed) Option() framework.Option { return b.observed }

func (b *bed) EmptyHistograms() bool { return true }

// seriesName returns the name that Prometheus's conventions give a series of the suite.
func seriesName(name string) string {
	full := "curator_" + strings.ReplaceAll(name, ".", "_")
	switch name {
	case "operation.duration", "lock.wait.duration", "lock.hold.duration", "cache.age":
		return full + "_seconds"
	case "operation.retries", "connection.transitions", "lock.not_acquired", "lock.losses", "cache.reads", "cache.resyncs":
		return full + "_total"
	}
	return full
}

func (b *bed) Value(t *testing.T, name string, labels ...string) (v, sum float64, ok bool) {
	t.Helper()
	m := b.series(t, seriesName(name), labels...)
	switch {
	case m == nil:
		return 0, 0, false
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount()), m.Histogram.GetSampleSum(), true
	case m.Gauge != nil:
		return m.Gauge.GetValue(), 0, true
	}
	return m.Counter.GetValue(), 0, true
}

// series returns the one with these labels (name, value, ...), and no other labels that are not
// empty.
func (b *bed) series(t *testing.T, name string, labels ...string) *dto.Metric {
	t.Helper()
	families, err := b.registry.Gather()
	require.NoError(t, err)
	want := map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		want[labels[i]] = labels[i+1]
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			got := map[string]string{}
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" {
					got[l.GetName()] = l.GetValue()
				}
			}
			if assert.ObjectsAreEqual(want, got) {
				return m
			}
		}
	}
	return nil
}

// TestSeries runs the cases of all adapters.
func TestSeries(t *testing.T) {
	metered.Run(t, func(t *testing.T, label metered.Label) metered.Adapter {
		if label == nil {
			return newBed(t)
		}
		return newBed(t, promobserve.WithLockLabel(label))
	})
}

// TestGaugesComeBackToZero: in every recipe each begin event has one end event, even after
// failures.
func TestGaugesComeBackToZero(t *testing.T) {
	b := newBed(t)
	ctx := testbed.Context(t)
	var contenders sync.WaitGroup
	for range 3 {
		client := b.client(t)
		m := testbed.Must(mutex.New(client, "/mutex"))
		s := testbed.Must(semaphore.New(client, "/semaphore", 2))
		rw := testbed.Must(rwlock.New(client, "/rwlock"))
		for _, l := range []interface {
			Acquire(context.Context) (*lock.Hold, error)
			TryAcquire(context.Context) (*lock.Hold, error)
		}{m, s, rw.Read(), rw.Write()} {
			contenders.Go(func() {
				// with more and more time, for a slow machine
				for n, held := 0, false; n < 30 || !held && ctx.Err() == nil; n++ {
					short, cancel := context.WithTimeout(ctx, time.Duration(max(20, n))*time.Millisecond)
					for _, acquire := range []func(context.Context) (*lock.Hold, error){l.Acquire, l.TryAcquire} {
						if hold, err := acquire(short); err == nil {
							held = true
							select {
							case <-hold.Done():
							case <-time.After(3 * time.Millisecond):
							}
							_ = hold.Release() // it may be lost; that is what this is about
						}
					}
					cancel()
				}
			})
		}
	}
	finished := testbed.Go(func() bool { contenders.Wait(); return true })
	for faults := 0; ; faults++ {
		if faults%2 == 0 {
			b.server.CutConnections()
		} else {
			for _, s := range b.server.Sessions() {
				_ = b.server.ExpireSession(s.ID) // it may have expired by itself
			}
		}
		select {
		case <-finished:
		case <-time.After(time.Duration(max(50, faults)) * time.Millisecond):
			continue
		}
		break
	}
	becomes := func(want float64, name string, labels ...string) {
		t.Helper()
		testbed.Eventually(t, func() bool {
			got, _, _ := b.Value(t, name, labels...)
			return got == want
		}, fmt.Sprint(name, labels))
	}
	acquired, lost := 0.0, 0.0
	for _, kind := range []string{"mutex", "lease", "read", "write"} {
		of := []string{"kind", kind}
		becomes(0, "lock.waiting", of...)
		becomes(0, "lock.held", of...) // a loss is reported a little later
		got, _, _ := b.Value(t, "lock.wait.duration", of...)
		assert.Positive(t, got, kind)
		becomes(got, "lock.hold.duration", of...)
		acquired += got
		for _, cause := range []string{"session_lost", "suspended", "node_deleted"} {
			v, _, _ := b.Value(t, "lock.losses", "kind", kind, "cause", cause)
			lost += v
		}
	}
	t.Logf("%v acquired, %v of them lost", acquired, lost)
}

func TestBuckets(t *testing.T) {
	b := newBed(t, promobserve.WithBuckets(1, 60))
	require.NoError(t, testbed.Err(b.client(t).Exists(testbed.Context(t), "/a")))
	var bounds []float64
	for _, bucket := range b.series(t, "curator_operation_duration_seconds", "op", "exists", "result", "ok").Histogram.GetBucket() {
		bounds = append(bounds, bucket.GetUpperBound())
	}
	assert.Equal(t, []float64{1, 60}, bounds)
}

func TestBadArgumentsAreRefused(t *testing.T) {
	assert.ErrorIs(t, testbed.Err(promobserve.New(nil)), framework.ErrBadArgument)
	for name, opt := range map[string]promobserve.Option{
		"nil": nil, "label": promobserve.WithLockLabel(nil), "no buckets": promobserve.WithBuckets(),
		"falling": promobserve.WithBuckets(2, 1), "twice": promobserve.WithBuckets(1, 1),
	} {
		assert.ErrorIs(t, testbed.Err(promobserve.New(prom.NewRegistry(), opt)), framework.ErrBadArgument, name)
	}
}

// full is a registry that takes only so many collectors.
type full struct {
	*prom.Registry
	room int
}

func (f *full) Register(c prom.Collector) error {
	if f.room == 0 {
		return errFull
	}
	f.room--
	return f.Registry.Register(c)
}

var errFull = errors.New("registry is full")

func TestARegistryHasOneObserver(t *testing.T) {
	registry := prom.NewRegistry()
	require.ErrorIs(t, testbed.Err(promobserve.New(&full{registry, 5})), errFull)
	require.NoError(t, testbed.Err(promobserve.New(registry)), "nothing was left registered")
	_, err := promobserve.New(registry)
	var already prom.AlreadyRegisteredError
	require.ErrorAs(t, err, &already)
}
