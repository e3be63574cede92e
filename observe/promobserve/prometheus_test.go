package promobserve_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/observe/promobserve"
	"github.com/gocurator/curator/recipes/leader"
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

// value returns the value of a series: for a histogram the number of observations. ok is false if
// there is none.
func (b *bed) value(t *testing.T, name string, labels ...string) (v float64, ok bool) {
	t.Helper()
	m := b.series(t, name, labels...)
	switch {
	case m == nil:
		return 0, false
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount()), true
	case m.Gauge != nil:
		return m.Gauge.GetValue(), true
	}
	return m.Counter.GetValue(), true
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

func (b *bed) is(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	got, ok := b.value(t, name, labels...)
	assert.True(t, ok, "%s %v is there", name, labels)
	assert.Equal(t, want, got, "%s %v", name, labels)
}

func (b *bed) becomes(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		got, _ := b.value(t, name, labels...)
		return got == want
	}, fmt.Sprint(name, labels))
}

func TestLocksAcquiredAndContended(t *testing.T) {
	b := newBed(t, promobserve.WithLockLabel(func(path, kind string) string { return kind + " at " + path }))
	first, err := mutex.New(b.client(t), "/lock")
	require.NoError(t, err)
	second, err := mutex.New(b.client(t), "/lock")
	require.NoError(t, err)
	of := []string{"lock", "mutex at /lock", "kind", "mutex"}
	and := func(more ...string) []string { return append(more, of...) }

	hold, err := first.Acquire(testbed.Context(t))
	require.NoError(t, err)
	b.is(t, 1, "curator_lock_held", of...)
	b.is(t, 0, "curator_lock_waiting", of...)
	b.is(t, 1, "curator_lock_wait_duration_seconds", of...)
	b.is(t, 1, "curator_lock_queue_length", of...)
	assert.Zero(t, b.series(t, "curator_lock_queue_length", of...).Histogram.GetSampleSum(), "nobody was ahead")

	_, err = second.TryAcquire(testbed.Context(t))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	b.is(t, 1, "curator_lock_not_acquired_total", and("reason", "held")...)

	impatient, cancel := context.WithCancelCause(testbed.Context(t))
	done := make(chan error, 1)
	go func() {
		_, err := second.Acquire(impatient)
		done <- err
	}()
	b.becomes(t, 2, "curator_lock_queue_length", of...)
	b.is(t, 1, "curator_lock_waiting", of...)
	assert.Equal(t, 1.0, b.series(t, "curator_lock_queue_length", of...).Histogram.GetSampleSum(), "one was ahead")
	cancel(errors.New("no time"))
	require.ErrorIs(t, <-done, context.Canceled)
	b.is(t, 1, "curator_lock_not_acquired_total", and("reason", "canceled")...)
	b.is(t, 0, "curator_lock_waiting", of...)

	require.NoError(t, hold.Release())
	b.is(t, 0, "curator_lock_held", of...)
	b.is(t, 1, "curator_lock_hold_duration_seconds", of...)
	assert.Positive(t, b.series(t, "curator_lock_hold_duration_seconds", of...).Histogram.GetSampleSum())
	_, lost := b.value(t, "curator_lock_losses_total", and("cause", "released")...)
	assert.False(t, lost, "a release is no loss")
	b.is(t, 2, "curator_operation_duration_seconds", "op", "create", "result", "ok")
	b.is(t, 0, "curator_operation_retries_total", "op", "create")
}

// TestWhatHasNotHappenedIsZero: a series that begins with 1 is no rise to Prometheus.
func TestWhatHasNotHappenedIsZero(t *testing.T) {
	b := newBed(t)
	b.is(t, 0, "curator_connection_transitions_total", "state", "lost")
	b.is(t, 0, "curator_connection_state", "state", "suspended")
	m, err := mutex.New(b.client(t), "/lock")
	require.NoError(t, err)
	require.NoError(t, m.Do(testbed.Context(t), func(context.Context) error { return nil }))
	for _, cause := range []string{"session_lost", "suspended", "node_deleted", "revoked", "max_hold", "closed", "other"} {
		b.is(t, 0, "curator_lock_losses_total", "kind", "mutex", "cause", cause)
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
	b.becomes(t, 1, "curator_lock_losses_total", "kind", "mutex", "cause", "session_lost")
	b.is(t, 0, "curator_lock_held", "kind", "mutex")
	b.is(t, 1, "curator_lock_hold_duration_seconds", "kind", "mutex")
	b.becomes(t, 1, "curator_connection_transitions_total", "state", "reconnected")
	b.is(t, 1, "curator_connection_transitions_total", "state", "lost")

	// Again in the next session, and lost with the connection.
	m, err = mutex.New(client, "/lock")
	require.NoError(t, err)
	hold, err = m.Acquire(testbed.Context(t))
	require.NoError(t, err)
	b.server.CutConnections()
	b.becomes(t, 1, "curator_lock_losses_total", "kind", "mutex", "cause", "suspended")
	assert.ErrorIs(t, hold.Err(), framework.ErrSuspended)
	assert.NoError(t, hold.Release(), "the node was still there")
	b.is(t, 0, "curator_lock_held", "kind", "mutex")
}

// TestGaugesComeBackToZero: in every recipe each begin event has one end event, also after
// failures.
func TestGaugesComeBackToZero(t *testing.T) {
	b := newBed(t)
	ctx := testbed.Context(t)
	var contenders sync.WaitGroup
	for range 3 {
		client := b.client(t)
		m, err := mutex.New(client, "/mutex")
		require.NoError(t, err)
		s, err := semaphore.New(client, "/semaphore", 2)
		require.NoError(t, err)
		rw, err := rwlock.New(client, "/rwlock")
		require.NoError(t, err)
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
	finished := make(chan struct{})
	go func() {
		contenders.Wait()
		close(finished)
	}()
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
	acquired, lost := 0.0, 0.0
	for _, kind := range []string{"mutex", "lease", "read", "write"} {
		of := []string{"kind", kind}
		b.is(t, 0, "curator_lock_waiting", of...)
		b.becomes(t, 0, "curator_lock_held", of...) // a loss is reported a little later
		got, _ := b.value(t, "curator_lock_wait_duration_seconds", of...)
		assert.Positive(t, got, kind)
		b.becomes(t, got, "curator_lock_hold_duration_seconds", of...)
		acquired += got
		for _, cause := range []string{"session_lost", "suspended", "node_deleted"} {
			v, _ := b.value(t, "curator_lock_losses_total", "kind", kind, "cause", cause)
			lost += v
		}
	}
	t.Logf("%v acquired, %v of them lost", acquired, lost)
}

// TestKindsHaveSeriesOfTheirOwn: readers, writers and a mutex on one path.
func TestKindsHaveSeriesOfTheirOwn(t *testing.T) {
	b := newBed(t, promobserve.WithLockLabel(func(path, _ string) string { return path }))
	client := b.client(t)
	rw, err := rwlock.New(client, "/lock")
	require.NoError(t, err)
	m, err := mutex.New(client, "/lock")
	require.NoError(t, err)
	nothing := func(context.Context) error { return nil }
	require.NoError(t, m.Do(testbed.Context(t), nothing))
	require.NoError(t, rw.Write().Do(testbed.Context(t), nothing))
	first, err := rw.Read().Acquire(testbed.Context(t))
	require.NoError(t, err)
	second, err := rw.Read().Acquire(testbed.Context(t))
	require.NoError(t, err)
	for kind, want := range map[string]struct{ held, waits float64 }{"mutex": {0, 1}, "write": {0, 1}, "read": {2, 2}} {
		of := []string{"lock", "/lock", "kind", kind}
		b.is(t, want.held, "curator_lock_held", of...)
		b.is(t, want.waits, "curator_lock_wait_duration_seconds", of...)
	}
	require.NoError(t, first.Release())
	require.NoError(t, second.Release())
}

// TestTermsAreOfKindElection: a latch's terms have series of their own; a selector's nodes are a
// mutex's.
func TestTermsAreOfKindElection(t *testing.T) {
	for kind, opts := range map[string][]leader.Option{"election": nil, "mutex": {leader.WithSelector()}} {
		b := newBed(t)
		e, err := leader.New(b.client(t), "/election", opts...)
		require.NoError(t, err)
		first, err := e.Campaign(testbed.Context(t))
		require.NoError(t, err)
		of := []string{"kind", kind}
		b.is(t, 1, "curator_lock_held", of...)
		b.is(t, 1, "curator_lock_wait_duration_seconds", of...)
		next := make(chan *leader.Term, 1)
		go func() { // ends when first is lost
			term, err := e.Campaign(testbed.Context(t))
			assert.NoError(t, err)
			next <- term
		}()
		b.becomes(t, 1, "curator_lock_waiting", of...)
		b.is(t, 0, "curator_lock_losses_total", "kind", kind, "cause", "node_deleted")
		require.NoError(t, b.client(t).Delete(testbed.Context(t), first.Path()))
		second := <-next
		b.becomes(t, 1, "curator_lock_losses_total", "kind", kind, "cause", "node_deleted")
		b.is(t, 1, "curator_lock_held", of...)
		b.is(t, 0, "curator_lock_waiting", of...)
		require.NoError(t, second.Release())
		b.is(t, 0, "curator_lock_held", of...)
		b.is(t, 2, "curator_lock_hold_duration_seconds", of...)
		b.is(t, 1, "curator_lock_losses_total", "kind", kind, "cause", "node_deleted")
	}
}

// TestGaugesExistFromTheFirstCampaign: an alert sees an election in which no candidate has ever
// led.
func TestGaugesExistFromTheFirstCampaign(t *testing.T) {
	b := newBed(t)
	e, err := leader.New(b.client(t), "/election")
	require.NoError(t, err)
	b.server.Block(zktest.OnCreate(), zktest.OnPath("/election/"))
	ctx, cancel := context.WithCancel(testbed.Context(t))
	ended := make(chan error, 1)
	go func() { // ends with ctx
		_, err := e.Campaign(ctx)
		ended <- err
	}()
	of := []string{"kind", "election"}
	b.becomes(t, 1, "curator_lock_waiting", of...)
	b.is(t, 0, "curator_lock_held", of...)
	b.is(t, 0, "curator_lock_wait_duration_seconds", of...)
	b.is(t, 0, "curator_lock_losses_total", "kind", "election", "cause", "session_lost")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	b.is(t, 0, "curator_lock_held", of...)
}

func TestRetriesAndResults(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	lost := b.server.Inject(zktest.LoseReply, 0, zktest.OnOp("exists"))
	_, _, err := client.Exists(testbed.Context(t), "/a")
	require.NoError(t, err)
	require.True(t, lost.Met())
	b.is(t, 1, "curator_operation_retries_total", "op", "exists")
	b.is(t, 1, "curator_operation_duration_seconds", "op", "exists", "result", "ok")
	_, _, err = client.Get(testbed.Context(t), "/a")
	require.Error(t, err)
	b.is(t, 1, "curator_operation_duration_seconds", "op", "get", "result", "no_node")
}

func TestStatesOfSeveralClients(t *testing.T) {
	b := newBed(t)
	first, second := b.client(t), b.client(t)
	b.becomes(t, 2, "curator_connection_state", "state", "connected")
	b.server.CutConnections()
	b.becomes(t, 2, "curator_connection_transitions_total", "state", "reconnected")
	b.becomes(t, 2, "curator_connection_state", "state", "connected")
	b.is(t, 0, "curator_connection_state", "state", "suspended")
	b.is(t, 2, "curator_connection_transitions_total", "state", "suspended")
	first.Close()
	b.is(t, 1, "curator_connection_state", "state", "connected")
	second.Close()
	b.is(t, 0, "curator_connection_state", "state", "connected")
	b.is(t, 2, "curator_connection_transitions_total", "state", "none")
}

func TestTheDefaultLabelOfLocksIsEmpty(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	for _, path := range []string{"/a", "/b", "/c"} {
		m, err := mutex.New(client, path)
		require.NoError(t, err)
		require.NoError(t, m.Do(testbed.Context(t), func(context.Context) error { return nil }))
	}
	b.is(t, 3, "curator_lock_wait_duration_seconds", "kind", "mutex")
	b.is(t, 3, "curator_lock_hold_duration_seconds", "kind", "mutex")
}

func TestBuckets(t *testing.T) {
	b := newBed(t, promobserve.WithBuckets(1, 60))
	_, _, err := b.client(t).Exists(testbed.Context(t), "/a")
	require.NoError(t, err)
	var bounds []float64
	for _, bucket := range b.series(t, "curator_operation_duration_seconds", "op", "exists", "result", "ok").Histogram.GetBucket() {
		bounds = append(bounds, bucket.GetUpperBound())
	}
	assert.Equal(t, []float64{1, 60}, bounds)
}

// TestALabelThatIsCutInTheMiddleOfACharacter does not end the program: a registry panics over text
// that is not UTF-8.
func TestALabelThatIsCutInTheMiddleOfACharacter(t *testing.T) {
	b := newBed(t, promobserve.WithLockLabel(func(path, _ string) string { return path[:len("/caf\xc3")] }))
	m, err := mutex.New(b.client(t), "/caf\u00e9")
	require.NoError(t, err)
	hold, err := m.Acquire(testbed.Context(t))
	require.NoError(t, err)
	require.NoError(t, hold.Release())
	v, ok := b.value(t, "curator_lock_hold_duration_seconds", "lock", "/caf\ufffd", "kind", "mutex")
	assert.True(t, ok)
	assert.Equal(t, 1.0, v)
}

func TestBadArgumentsAreRefused(t *testing.T) {
	_, err := promobserve.New(nil)
	assert.ErrorIs(t, err, framework.ErrBadArgument)
	for name, opt := range map[string]promobserve.Option{
		"nil": nil, "label": promobserve.WithLockLabel(nil), "no buckets": promobserve.WithBuckets(),
		"falling": promobserve.WithBuckets(2, 1), "twice": promobserve.WithBuckets(1, 1),
	} {
		_, err := promobserve.New(prom.NewRegistry(), opt)
		assert.ErrorIs(t, err, framework.ErrBadArgument, name)
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
	_, err := promobserve.New(&full{registry, 5})
	require.ErrorIs(t, err, errFull)
	_, err = promobserve.New(registry)
	require.NoError(t, err, "nothing was left registered")
	_, err = promobserve.New(registry)
	var already prom.AlreadyRegisteredError
	require.ErrorAs(t, err, &already)
}
