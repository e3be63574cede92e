// Package metered is the suite of tests of the adapters that measure a client: what happens to
// connections, operations, locks, caches and kept nodes shows in their series.
package metered

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/zktest"
)

// Adapter is what the suite tests. Its series and labels have the names of otelobserve without
// "curator." in front.
type Adapter interface {
	// Option is the option of each client.
	Option() framework.Option
	// Value returns the value of the series with exactly these labels (name, value, ...): for a
	// histogram the number of observations, and their sum. ok is false if there is none.
	Value(t *testing.T, name string, labels ...string) (value, sum float64, ok bool)
	// EmptyHistograms reports whether a histogram without an observation has a series.
	EmptyHistograms() bool
	// Rises reports whether a series can only rise.
	Rises(t *testing.T, name string, labels ...string) bool
	// ObserveCache, ObserveNode and ObserveMember add series by this name.
	ObserveCache(c *cache.Cache, name string) error
	ObserveNode(n *node.Node, name string) error
	ObserveMember(m *node.Member, name string) error
}

// Label returns the label of a lock.
type Label func(path, kind string) string

// Run runs the suite. create returns an adapter with a label of locks, or with the default one.
func Run(t *testing.T, create func(t *testing.T, label Label) Adapter) {
	for name, c := range map[string]struct {
		test  func(t *testing.T, b *bed)
		label Label
	}{
		"locks acquired and contended":                     {acquiredAndContended, func(path, kind string) string { return kind + " at " + path }},
		"a label that is cut in the middle of a character": {replacesHalfACharacter, func(path, _ string) string { return path[:len("/caf\xc3")] }},
		"kinds have separate series":                       {kindsHaveSeriesOfTheirOwn, func(path, _ string) string { return path }},
		"the default label of locks is empty":              {hasNoLabel, nil},
		"what has not happened is zero":                    {whatHasNotHappenedIsZero, nil},
		"losses by cause":                                  {lossesByCause, nil},
		"a latch is an election":                           {func(t *testing.T, b *bed) { termsHaveAKind(t, b, "election") }, nil},
		"a selector is a mutex":                            {func(t *testing.T, b *bed) { termsHaveAKind(t, b, "mutex", leader.WithSelector()) }, nil},
		"gauges exist from the first campaign":             {gaugesExistFromTheFirstCampaign, nil},
		"retries and results":                              {retriesAndResults, nil},
		"states of several clients":                        {statesOfSeveralClients, nil},
		"a cache":                                          {measuresACache, nil},
		"a kept node and a member":                         {showsWhetherANodeIsPresent, nil},
		"a collection asks no server":                      {asksNoServer, nil},
		"bad arguments are refused":                        {refusesBadArguments, nil},
	} {
		t.Run(name, func(t *testing.T) { c.test(t, &bed{create(t, c.label), zktest.NewServer(t)}) })
	}
}

// bed is an adapter, and a server.
type bed struct {
	Adapter
	server *zktest.Server
}

func (b *bed) client(t *testing.T) *framework.Client {
	t.Helper()
	return testbed.On(b.server).Client(t, b.Option())
}

func (b *bed) mutex(t *testing.T, path string, opts ...lock.Option) *mutex.Mutex {
	t.Helper()
	m := testbed.Must(mutex.New(b.client(t), path, opts...))
	return m
}

// is checks the value of a series that exists.
func (b *bed) is(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	got, _, ok := b.Value(t, name, labels...)
	assert.True(t, ok, "%s %v is there", name, labels)
	assert.Equal(t, want, got, "%s %v", name, labels)
}

// becomes waits for the value of a series.
func (b *bed) becomes(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		got, _, _ := b.Value(t, name, labels...)
		return got == want
	}, fmt.Sprint(name, labels))
}

// rises waits until the value of a series is greater than it was.
func (b *bed) rises(t *testing.T, than float64, name string, labels ...string) (value float64) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		value, _, _ = b.Value(t, name, labels...)
		return value > than
	}, name)
	return value
}

// sum returns the sum of the observations of a histogram.
func (b *bed) sum(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	_, sum, ok := b.Value(t, name, labels...)
	require.True(t, ok, "%s %v is there", name, labels)
	return sum
}

func nothing(context.Context) error { return nil }

func acquiredAndContended(t *testing.T, b *bed) {
	first, second := b.mutex(t, "/lock"), b.mutex(t, "/lock")
	of := []string{"lock", "mutex at /lock", "kind", "mutex"}
	and := func(more ...string) []string { return append(more, of...) }

	hold := testbed.Acquire(t, first)
	b.is(t, 1, "lock.held", of...)
	b.is(t, 0, "lock.waiting", of...)
	b.is(t, 1, "lock.wait.duration", of...)
	b.is(t, 1, "lock.queue_length", of...)
	assert.Zero(t, b.sum(t, "lock.queue_length", of...), "nobody was ahead")

	_, err := second.TryAcquire(testbed.Context(t))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	b.is(t, 1, "lock.not_acquired", and("reason", "held")...)

	impatient, cancel := context.WithCancelCause(testbed.Context(t))
	done := testbed.Go(func() error {
		_, err := second.Acquire(impatient)
		return err
	})
	b.becomes(t, 2, "lock.queue_length", of...)
	b.is(t, 1, "lock.waiting", of...)
	assert.Equal(t, 1.0, b.sum(t, "lock.queue_length", of...), "one was ahead")
	cancel(errors.New("no time"))
	require.ErrorIs(t, <-done, context.Canceled)
	b.is(t, 1, "lock.not_acquired", and("reason", "canceled")...)
	b.is(t, 0, "lock.waiting", of...)

	require.NoError(t, hold.Release())
	b.is(t, 0, "lock.held", of...)
	b.is(t, 1, "lock.hold.duration", of...)
	assert.Positive(t, b.sum(t, "lock.hold.duration", of...))
	_, _, lost := b.Value(t, "lock.losses", and("cause", "released")...)
	assert.False(t, lost, "a release is no loss")
	b.is(t, 2, "operation.duration", "op", "create", "result", "ok")
	b.is(t, 0, "operation.retries", "op", "create")
}

// replacesHalfACharacter: a registry panics over text that is not UTF-8, and the export of
// everything else would fail.
func replacesHalfACharacter(t *testing.T, b *bed) {
	hold := testbed.Acquire(t, b.mutex(t, "/caf\u00e9"))
	b.is(t, 1, "lock.held", "lock", "/caf\ufffd", "kind", "mutex")
	require.NoError(t, hold.Release())
	b.is(t, 1, "lock.hold.duration", "lock", "/caf\ufffd", "kind", "mutex")
}

// kindsHaveSeriesOfTheirOwn: readers, writers and a mutex on one path.
func kindsHaveSeriesOfTheirOwn(t *testing.T, b *bed) {
	rw := testbed.Must(rwlock.New(b.client(t), "/lock"))
	require.NoError(t, b.mutex(t, "/lock").Do(testbed.Context(t), nothing))
	require.NoError(t, rw.Write().Do(testbed.Context(t), nothing))
	first, second := testbed.Acquire(t, rw.Read()), testbed.Acquire(t, rw.Read())
	for kind, want := range map[string]struct{ held, waits float64 }{"mutex": {0, 1}, "write": {0, 1}, "read": {2, 2}} {
		of := []string{"lock", "/lock", "kind", kind}
		b.is(t, want.held, "lock.held", of...)
		b.is(t, want.waits, "lock.wait.duration", of...)
	}
	require.NoError(t, first.Release())
	require.NoError(t, second.Release())
}

func hasNoLabel(t *testing.T, b *bed) {
	for _, path := range []string{"/a", "/b", "/c"} {
		require.NoError(t, b.mutex(t, path).Do(testbed.Context(t), nothing))
	}
	b.is(t, 3, "lock.wait.duration", "kind", "mutex")
	b.is(t, 3, "lock.hold.duration", "kind", "mutex")
}

// whatHasNotHappenedIsZero: a series that begins with 1 is no rise to Prometheus.
func whatHasNotHappenedIsZero(t *testing.T, b *bed) {
	b.is(t, 0, "connection.transitions", "state", "lost")
	b.is(t, 0, "connection.state", "state", "suspended")
	require.NoError(t, b.mutex(t, "/lock").Do(testbed.Context(t), nothing))
	for _, cause := range []string{"session_lost", "suspended", "node_deleted", "revoked", "max_hold", "closed", "other"} {
		b.is(t, 0, "lock.losses", "kind", "mutex", "cause", cause)
	}
}

func lossesByCause(t *testing.T, b *bed) {
	client := b.client(t)
	trusting := testbed.Must(mutex.New(client, "/lock", lock.WithErrorPolicy(connstate.LostEndsHold)))
	hold := testbed.Acquire(t, trusting)
	require.NoError(t, b.server.ExpireSession(hold.Session().ID()))
	b.becomes(t, 1, "lock.losses", "kind", "mutex", "cause", "session_lost")
	b.is(t, 0, "lock.held", "kind", "mutex")
	b.is(t, 1, "lock.hold.duration", "kind", "mutex")
	b.becomes(t, 1, "connection.transitions", "state", "reconnected")
	b.is(t, 1, "connection.transitions", "state", "lost")

	// Again in the next session, and lost with the connection.
	m := testbed.Must(mutex.New(client, "/lock"))
	hold = testbed.Acquire(t, m)
	b.server.CutConnections()
	b.becomes(t, 1, "lock.losses", "kind", "mutex", "cause", "suspended")
	assert.ErrorIs(t, hold.Err(), framework.ErrSuspended)
	assert.NoError(t, hold.Release(), "the node was still there")
	b.is(t, 0, "lock.held", "kind", "mutex")
}

// termsHaveAKind: a latch's terms have separate series; a selector's terms have the series of a
// mutex.
func termsHaveAKind(t *testing.T, b *bed, kind string, opts ...leader.Option) {
	e := testbed.Must(leader.New(b.client(t), "/election", opts...))
	first := testbed.Must(e.Campaign(testbed.Context(t)))
	of := []string{"kind", kind}
	b.is(t, 1, "lock.held", of...)
	b.is(t, 1, "lock.wait.duration", of...)
	next := testbed.Go(func() *leader.Term { // ends when first is lost
		term, err := e.Campaign(testbed.Context(t))
		assert.NoError(t, err)
		return term
	})
	b.becomes(t, 1, "lock.waiting", of...)
	b.is(t, 0, "lock.losses", "kind", kind, "cause", "node_deleted")
	require.NoError(t, b.client(t).Delete(testbed.Context(t), first.Path()))
	second := <-next
	b.becomes(t, 1, "lock.losses", "kind", kind, "cause", "node_deleted")
	b.is(t, 1, "lock.held", of...)
	b.is(t, 0, "lock.waiting", of...)
	require.NoError(t, second.Release())
	b.is(t, 0, "lock.held", of...)
	b.is(t, 2, "lock.hold.duration", of...)
	b.is(t, 1, "lock.losses", "kind", kind, "cause", "node_deleted")
}

// gaugesExistFromTheFirstCampaign: an alert sees an election in which no candidate has ever led.
func gaugesExistFromTheFirstCampaign(t *testing.T, b *bed) {
	e := testbed.Must(leader.New(b.client(t), "/election"))
	b.server.Block(zktest.OnCreate(), zktest.OnPath("/election/"))
	ctx, cancel := context.WithCancel(testbed.Context(t))
	ended := testbed.Go(func() error { // ends with ctx
		_, err := e.Campaign(ctx)
		return err
	})
	of := []string{"kind", "election"}
	b.becomes(t, 1, "lock.waiting", of...)
	b.is(t, 0, "lock.held", of...)
	waits, _, ok := b.Value(t, "lock.wait.duration", of...)
	assert.Equal(t, b.EmptyHistograms(), ok)
	assert.Zero(t, waits)
	b.is(t, 0, "lock.losses", "kind", "election", "cause", "session_lost")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	b.is(t, 0, "lock.held", of...)
}

func retriesAndResults(t *testing.T, b *bed) {
	client := b.client(t)
	lost := b.server.Inject(zktest.LoseReply, 0, zktest.OnOp("exists"))
	require.False(t, testbed.Exists(t, client, "/a"))
	require.True(t, lost.Met())
	b.is(t, 1, "operation.retries", "op", "exists")
	b.is(t, 1, "operation.duration", "op", "exists", "result", "ok")
	_, _, err := client.Get(testbed.Context(t), "/a")
	require.Error(t, err)
	b.is(t, 1, "operation.duration", "op", "get", "result", "no_node")
	client.Close()
	_, _, err = client.Get(testbed.Context(t), "/a")
	require.ErrorIs(t, err, framework.ErrClosed)
	b.is(t, 1, "operation.duration", "op", "get", "result", "closed")
}

func statesOfSeveralClients(t *testing.T, b *bed) {
	first, second := b.client(t), b.client(t)
	b.becomes(t, 2, "connection.state", "state", "connected")
	b.server.CutConnections()
	b.becomes(t, 2, "connection.transitions", "state", "reconnected")
	b.becomes(t, 2, "connection.state", "state", "connected")
	b.is(t, 0, "connection.state", "state", "suspended")
	b.is(t, 2, "connection.transitions", "state", "suspended")
	first.Close()
	b.is(t, 1, "connection.state", "state", "connected")
	second.Close()
	b.is(t, 0, "connection.state", "state", "connected")
	b.is(t, 2, "connection.transitions", "state", "none")
}

// cache returns a cache that is observed and has read its nodes.
func (b *bed) cache(t *testing.T, client *framework.Client, path, name string) *cache.Cache {
	t.Helper()
	c := testbed.Must(cache.New(client, path))
	t.Cleanup(func() { c.Close() })
	require.NoError(t, b.ObserveCache(c, name))
	require.NoError(t, c.Sync(testbed.Context(t)))
	return c
}

func measuresACache(t *testing.T, b *bed) {
	for path, data := range map[string]string{"/config": "", "/other": "1"} {
		require.NoError(t, b.server.Create(path, []byte(data)))
	}
	require.NoError(t, b.server.Create("/config/db", []byte("12345")))
	require.NoError(t, b.server.Create("/config/web", []byte("123")))
	client, of := b.client(t), []string{"cache", "configuration"}
	c := b.cache(t, client, "/config", "configuration")
	b.cache(t, client, "/other", "other")

	b.is(t, 3, "cache.nodes", of...)
	b.is(t, 8, "cache.bytes", of...)
	b.is(t, 0, "cache.age", of...)
	b.is(t, 1, "cache.resyncs", of...)
	b.is(t, float64(c.Stats().Reads), "cache.reads", of...)
	b.is(t, 1, "cache.nodes", "cache", "other")
	b.is(t, 1, "cache.bytes", "cache", "other")
	for _, total := range []string{"cache.reads", "cache.resyncs"} {
		assert.True(t, b.Rises(t, total, of...), "%s only rises", total)
	}

	before, _, _ := b.Value(t, "cache.reads", of...)
	require.NoError(t, b.server.Delete("/config/web"))
	require.NoError(t, b.server.Set("/config/db", []byte("1234567")))
	require.NoError(t, c.Sync(testbed.Context(t)))
	b.is(t, 2, "cache.nodes", of...)
	b.is(t, 7, "cache.bytes", of...)
	b.rises(t, before, "cache.reads", of...)

	// Without a server the copy stays, and grows old; with one again everything is read again.
	b.server.RefuseConnections(true)
	b.server.CutConnections()
	b.rises(t, b.rises(t, 0, "cache.age", of...), "cache.age", of...)
	b.is(t, 2, "cache.nodes", of...)
	b.server.RefuseConnections(false)
	b.becomes(t, 0, "cache.age", of...)
	b.is(t, 2, "cache.resyncs", of...)

	require.NoError(t, c.Close())
	b.rises(t, b.rises(t, 0, "cache.age", of...), "cache.age", of...)
	b.is(t, 2, "cache.nodes", of...)
}

func showsWhetherANodeIsPresent(t *testing.T, b *bed) {
	client := b.client(t)
	n := testbed.Must(node.Keep(testbed.Context(t), client, "/workers/7", nil))
	m := testbed.Must(node.Join(testbed.Context(t), client, "/group", "7", nil))
	require.NoError(t, b.ObserveNode(n, "worker"))
	require.NoError(t, b.ObserveMember(m, "member"))
	worker, member := []string{"node", "worker"}, []string{"node", "member"}
	b.is(t, 1, "node.present", worker...)
	b.is(t, 1, "node.present", member...)

	b.server.RefuseConnections(true)
	b.server.CutConnections()
	b.becomes(t, 0, "node.present", worker...)
	b.becomes(t, 0, "node.present", member...)
	b.server.RefuseConnections(false)
	b.becomes(t, 1, "node.present", worker...)
	b.becomes(t, 1, "node.present", member...)

	require.NoError(t, m.Close())
	b.is(t, 0, "node.present", member...)
	b.is(t, 1, "node.present", worker...)
	require.NoError(t, n.Close())
	b.is(t, 0, "node.present", worker...)
}

// asksNoServer: the series can be read while no server answers.
func asksNoServer(t *testing.T, b *bed) {
	client := b.client(t)
	b.cache(t, client, "/config", "configuration")
	n := testbed.Must(node.Keep(testbed.Context(t), client, "/workers/7", nil))
	defer n.Close()
	require.NoError(t, b.ObserveNode(n, "worker"))

	b.server.Pause()
	b.is(t, 0, "cache.nodes", "cache", "configuration")
	b.is(t, 1, "node.present", "node", "worker")
	b.server.Resume()
}

func refusesBadArguments(t *testing.T, b *bed) {
	client := b.client(t)
	c := testbed.Must(cache.New(client, "/config"))
	defer c.Close()
	n := testbed.Must(node.Keep(testbed.Context(t), client, "/workers/7", nil))
	defer n.Close()
	m := testbed.Must(node.Join(testbed.Context(t), client, "/group", "7", nil))
	defer m.Close()
	for what, err := range map[string]error{
		"nil cache":        b.ObserveCache(nil, "a"),
		"nil node":         b.ObserveNode(nil, "a"),
		"nil member":       b.ObserveMember(nil, "a"),
		"cache, no name":   b.ObserveCache(c, ""),
		"node, no name":    b.ObserveNode(n, ""),
		"member, no name":  b.ObserveMember(m, ""),
		"cache, not UTF-8": b.ObserveCache(c, "\xff"),
		"node, not UTF-8":  b.ObserveNode(n, "\xff"),
	} {
		assert.ErrorIs(t, err, framework.ErrBadArgument, what)
	}
}
