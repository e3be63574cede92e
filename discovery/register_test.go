package discovery_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/zktest"
)

func TestEachTypeHasItsNodeAndItsEnd(t *testing.T) {
	for _, c := range []struct {
		kind      discovery.Type
		ephemeral bool
		suffix    string
	}{
		{"", true, ""},
		{discovery.Dynamic, true, ""},
		{discovery.Static, false, ""},
		{discovery.DynamicSequential, true, "0000000000"},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			server := zktest.NewServer(t)
			d := newDiscovery[string](t, newClient(t, server))
			i := at("orders", "1")
			i.Type = c.kind
			r := register(t, d, i)
			if c.kind == discovery.DynamicSequential {
				require.Regexp(t, "^/services/orders/_c_[0-9a-f-]{36}-1"+c.suffix+"$", r.Path())
			} else {
				require.Equal(t, "/services/orders/1", r.Path())
			}
			assert.Equal(t, c.ephemeral, testbed.ServerStat(t, server, r.Path()).EphemeralOwner != 0)
			there, _ := r.Present()
			assert.True(t, there)
			require.NoError(t, r.Problem())

			i.Payload = "later"
			require.NoError(t, r.Update(testbed.Context(t), i))
			require.Equal(t, "later", r.Instance().Payload)
			require.Contains(t, testbed.ServerData(t, server, r.Path()), `"payload":"later"`)

			require.NoError(t, r.Close())
			require.NoError(t, r.Close())
			require.False(t, server.Exists(r.Path()))
		})
	}
}

// CURATOR-94
func TestAPermanentInstanceStays(t *testing.T) {
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	client := newClient(t, server)
	d := newDiscovery[string](t, client)
	for _, payload := range []string{"first", "later"} {
		i := at("orders", "1")
		i.Payload = payload
		written, err := d.Write(ctx, i)
		require.NoError(t, err)
		require.Equal(t, discovery.Permanent, written.Type)
		require.False(t, written.RegistrationTime.IsZero())
		list := lookup(t, d, "orders")
		require.Len(t, list, 1)
		assert.EqualExportedValues(t, written, list[0])
	}
	require.NoError(t, client.Close())
	require.True(t, server.Exists("/services/orders/1"))
	d = newDiscovery[string](t, newClient(t, server))
	require.NoError(t, d.Unregister(ctx, "orders", "1"))
	require.False(t, server.Exists("/services/orders/1"))

	i := at("orders", "1")
	i.Type = discovery.Permanent
	_, err := d.Register(ctx, i)
	require.ErrorIs(t, err, framework.ErrBadArgument, "nobody keeps it")
	require.ErrorContains(t, err, "use Write")
	_, err = d.Write(ctx, at("", "1"))
	require.ErrorIs(t, err, framework.ErrBadArgument)
	testbed.OneOp(t, err, "write", "/services")
}

// TestADisabledInstanceIsNotWrittenAsAnEnabledOne: without WithEnabledField nothing in the node
// would say so.
func TestADisabledInstanceIsNotWrittenAsAnEnabledOne(t *testing.T) {
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	d := newDiscovery[string](t, newClient(t, server))
	r := register(t, d, at("orders", "1"))
	i := at("orders", "2")
	i.Disabled = true
	require.ErrorIs(t, testbed.Err(d.Register(ctx, i)), framework.ErrBadArgument)
	require.ErrorIs(t, testbed.Err(d.Write(ctx, i)), framework.ErrBadArgument)
	require.False(t, server.Exists("/services/orders/2"))
	i.ID = "1"
	require.ErrorIs(t, r.Update(ctx, i), framework.ErrBadArgument)
	require.False(t, r.Instance().Disabled)
}

func TestIdsMadeByDefaultDiffer(t *testing.T) {
	d := newDiscovery[string](t, newClient(t, zktest.NewServer(t)))
	one, two := register(t, d, at("orders", "")), register(t, d, at("orders", ""))
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, one.Instance().ID)
	require.NotEqual(t, one.Instance().ID, two.Instance().ID)
	require.False(t, one.Instance().RegistrationTime.IsZero())
}

// CURATOR-320
func TestAReconnectOfALivingSessionWritesNothing(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		d := newDiscovery[string](t, w.Client())
		r := register(t, d, at("orders", "1"))
		before := testbed.ServerStat(t, w.Server, r.Path())
		w.Server.CutConnections()
		time.Sleep(time.Minute) // virtual time, in which nothing may be written
		there, _ := r.Present()
		require.True(t, there)
		require.Equal(t, before, testbed.ServerStat(t, w.Server, r.Path()))
		require.NoError(t, r.Close())
	})
}

func TestARegistrationComesBackWithWhatWasUpdatedLast(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	d := newDiscovery[string](t, client)
	r := register(t, d, at("orders", "1"))
	require.NoError(t, update(testbed.Context(t), r, "later"))
	before := testbed.ServerStat(t, server, r.Path())
	testbed.On(server).ExpireSession(t, client)
	testbed.Eventually(t, func() bool {
		stat, err := server.Stat(r.Path())
		return err == nil && stat.Czxid != before.Czxid
	}, "the node is made again")
	require.Contains(t, testbed.ServerData(t, server, r.Path()), `"payload":"later"`)
}

func TestTheNodeOfAnEarlierSessionIsReplacedSoThatWatchersSeeIt(t *testing.T) {
	server := zktest.NewServer(t)
	crashed := newDiscovery[string](t, newClient(t, server))
	register(t, crashed, at("orders", "1"))
	before := testbed.ServerStat(t, server, "/services/orders/1")
	d := newDiscovery[string](t, newClient(t, server))
	w := watch(t, d, "orders")
	i := at("orders", "1")
	i.Payload = "again"
	register(t, d, i)
	require.NotEqual(t, before.Czxid, testbed.ServerStat(t, server, "/services/orders/1").Czxid)
	shows(t, w, func(list []discovery.Instance[string]) bool { return len(list) == 1 && list[0].Payload == "again" })
}

func TestAPermanentInstanceReplacesTheNodeOfASession(t *testing.T) {
	server := zktest.NewServer(t)
	r := register(t, newDiscovery[string](t, newClient(t, server)), at("orders", "1"))
	_, err := newDiscovery[string](t, newClient(t, server)).Write(testbed.Context(t), at("orders", "1"))
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Zero(t, testbed.ServerStat(t, server, "/services/orders/1").EphemeralOwner)
}

func TestUpdateChangesNeitherNameNorIdNorType(t *testing.T) {
	ctx := testbed.Context(t)
	d := newDiscovery[string](t, newClient(t, zktest.NewServer(t)))
	r := register(t, d, at("orders", "1"))
	static := at("orders", "1")
	static.Type = discovery.Static
	for _, i := range []discovery.Instance[string]{at("other", "1"), at("orders", "2"), static, {Name: "orders", ID: "1"}} {
		require.ErrorIs(t, r.Update(ctx, i), framework.ErrBadArgument)
	}
	require.NoError(t, r.Close())
	require.ErrorIs(t, r.Update(ctx, at("orders", "1")), framework.ErrEnded)
}

// update changes the payload of an instance.
func update(ctx context.Context, r *discovery.Registration[string], payload string) error {
	i := at("orders", "1")
	i.Payload = payload
	return r.Update(ctx, i)
}

func TestAnUpdateThatFailsIsWrittenLaterAlsoIfAnotherOneWaits(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		r := register(t, newDiscovery[string](t, w.Client()), at("orders", "1"))
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		synctest.Wait() // the loss is noticed
		first := testbed.Go(func() error { return update(t.Context(), r, "first") })
		synctest.Wait()
		require.Empty(t, first, "it waits for a connection")
		short := testbed.Timeout(t, time.Second)
		require.ErrorIs(t, update(short, r, "second"), context.DeadlineExceeded)
		require.ErrorIs(t, update(short, r, "third"), context.DeadlineExceeded, "its context was done before")
		require.ErrorIs(t, update(short, r, strings.Repeat("x", 1<<20)), framework.ErrTooLong)
		require.Equal(t, "third", r.Instance().Payload)
		w.Server.RefuseConnections(false)
		require.NoError(t, <-first)
		require.Contains(t, testbed.ServerData(t, w.Server, r.Path()), `"payload":"third"`)
		require.NoError(t, r.Close())
	})
}

func TestAnUpdateWinsOverThoseThatWereGivenBefore(t *testing.T) {
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	r := register(t, newDiscovery[string](t, newClient(t, server)), at("orders", "1"))
	cancelled := testbed.Cancelled(t)
	for n := range testlevel.Pick(100, 300, 1000) {
		var wg sync.WaitGroup
		for m := range 16 {
			// is written later if it fails
			wg.Go(func() { _ = update([]context.Context{ctx, cancelled}[m%2], r, fmt.Sprint(m)) })
		}
		wg.Wait()
		last := fmt.Sprintf("last %d", n)
		require.NoError(t, update(ctx, r, last))
		require.Contains(t, testbed.ServerData(t, server, r.Path()), last)
		require.NoError(t, r.Problem())
	}
}

func TestDrainUnregistersAndThenWaits(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		d := newDiscovery[string](t, w.Client())
		r := register(t, d, at("orders", "1"))
		began := time.Now()
		done := testbed.Go(func() error { return r.Drain(t.Context(), 5*time.Second) })
		synctest.Wait() // it has unregistered, and waits
		require.False(t, w.Server.Exists(r.Path()))
		require.NoError(t, <-done)
		require.GreaterOrEqual(t, time.Since(began), 5*time.Second)

		r = register(t, d, at("orders", "1"))
		ctx := testbed.Timeout(t, time.Second)
		require.ErrorIs(t, r.Drain(ctx, time.Hour), context.DeadlineExceeded)
		require.False(t, w.Server.Exists(r.Path()))
	})
}

// CUR-DSC-06
func TestRegisterWaitsForAServer(t *testing.T) {
	for kind, i := range map[string]discovery.Instance[discovery.Metadata]{
		"plain":  {Name: "orders", Address: "h"},
		"Spring": discovery.Spring("orders", "h", 1, nil), // which looks for another profile first
	} {
		testbed.RunWorld(t, kind, func(t *testing.T, w *testbed.World) {
			d := newDiscovery[discovery.Metadata](t, w.Client())
			w.Server.Stop()
			done := testbed.Go(func() error {
				r, err := d.Register(t.Context(), i)
				if err == nil {
					err = r.Close()
				}
				return err
			})
			time.Sleep(5 * time.Minute) // virtual time: the length of the outage
			require.NoError(t, w.Server.Restart())
			require.NoError(t, <-done)
		})
	}
}

// Every request of a registration and of a Write fails in turn. Afterwards there is one node, or
// after an error none.
func TestARegistrationSurvivesEveryFault(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		d := newDiscovery[string](t, s.Subject)
		r := register(t, d, at("orders", "1"))
		require.NoError(t, update(t.Context(), r, "later"))
		permanent, err := d.Write(t.Context(), at("orders", "2"))
		require.NoError(t, err)
		// virtual time, in which a session that was lost is over for the servers, too
		time.Sleep(2 * time.Minute)
		require.Contains(t, testbed.ServerData(t, s.Server, r.Path()), "later")
		require.NoError(t, r.Close())
		require.False(t, s.Server.Exists(r.Path()))
		list := lookup(t, d, "orders")
		require.Len(t, list, 1)
		require.Equal(t, permanent.ID, list[0].ID)
	})
}

// TestAPermanentInstanceReplacesOneThatComesMeanwhile has another process register the instance
// after Write has found none to replace.
func TestAPermanentInstanceReplacesOneThatComesMeanwhile(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		const path = "/services/orders/1"
		subject, other := w.Client(), w.Client()
		d := newDiscovery[string](t, subject)
		session := testbed.Session(t, subject)
		gate := w.Server.Block(zktest.OnSession(session.ID()), zktest.OnPath(path), zktest.OnCreate())
		written := testbed.Go(func() error { // ends with the write
			_, err := d.Write(t.Context(), at("orders", "1"))
			return err
		})
		testbed.Receive(t, gate.Arrived(), "the create")
		testbed.Create(t, other, path, nil, framework.As(framework.Ephemeral), framework.ContainerParents())
		gate.Open()
		require.NoError(t, testbed.Receive(t, written, "the write"))
		require.NoError(t, other.Close())
		_, found, err := d.Get(t.Context(), "orders", "1")
		require.NoError(t, err)
		require.True(t, found, "a permanent instance does not go with the session of another")
	})
}
