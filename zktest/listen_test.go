package zktest_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// at opens a session at an address, or resumes one.
func at(t tester, addr string, old *rawClient) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	return begin(t, conn, old, 10*time.Second)
}

func refused(t *testing.T, addr string) {
	t.Helper()
	require.Error(t, testbed.Err(net.Dial("tcp", addr)))
}

func TestAddressesStopAndComeBackOneByOne(t *testing.T) {
	s := zktest.NewServer(t)
	l := testbed.Must(s.Listen("127.0.0.1:0", nil))
	require.NotEqual(t, s.Addr(), l.Addr())
	addr := l.Addr()
	here, there := at(t, s.Addr(), nil), at(t, addr, nil)
	mustCreate(t, there, "/owned", 1)

	l.Stop()
	require.False(t, l.Listening())
	over(t, there)
	refused(t, addr)
	ping(t, here)
	require.Equal(t, there.id, at(t, s.Addr(), there).id, "the session goes on by the other address")

	require.NoError(t, l.Restart())
	require.NoError(t, l.Restart(), "one that listens")
	require.Equal(t, addr, l.Addr())
	require.Equal(t, there.id, at(t, addr, there).id)
	require.True(t, s.Exists("/owned"))
}

func TestAddressesStopAndComeBackWithTheServer(t *testing.T) {
	s := zktest.NewServer(t)
	both := testbed.Must(s.Listen("127.0.0.1:0", nil))
	stopped := testbed.Must(s.Listen("127.0.0.1:0", nil))
	c := at(t, both.Addr(), nil)
	stopped.Stop()
	s.Stop()
	over(t, c)
	refused(t, both.Addr())
	late := testbed.Must(s.Listen("127.0.0.1:0", nil))
	refused(t, late.Addr())
	require.NoError(t, s.Restart())
	require.Equal(t, c.id, at(t, both.Addr(), c).id)
	at(t, late.Addr(), nil)
	refused(t, stopped.Addr())

	s.Stop()
	require.NoError(t, stopped.Restart())
	require.False(t, stopped.Listening(), "it waits for the server")
	require.NoError(t, s.Restart())
	at(t, stopped.Addr(), nil)

	require.Error(t, testbed.Err(s.Listen(both.Addr(), nil)), "taken")
	require.NoError(t, s.Close())
	refused(t, both.Addr())
	require.ErrorIs(t, both.Restart(), zktest.ErrClosed)
	require.ErrorIs(t, testbed.Err(s.Listen("127.0.0.1:0", nil)), zktest.ErrClosed)
}

func TestAServerInMemoryTakesTheAddressOfItsFirstListener(t *testing.T) {
	s := zktest.NewServer(t, zktest.WithInMemory())
	l := testbed.Must(s.Listen("127.0.0.1:0", nil))
	require.Equal(t, l.Addr(), s.Addr())
	at(t, s.Addr(), nil)
	raw(t, s, nil)
}

func TestAnAddressWithTLS(t *testing.T) {
	s := zktest.NewServer(t)
	web := httptest.NewTLSServer(nil) // its certificate is good for 127.0.0.1
	defer web.Close()
	l := testbed.Must(s.Listen("127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates}))
	conn := testbed.Must(tls.Dial("tcp", l.Addr(), web.Client().Transport.(*http.Transport).TLSClientConfig))
	c := begin(t, conn, nil, 10*time.Second)
	mustCreate(t, c, "/over-tls", 0)
	require.Equal(t, "/over-tls \"\"\n", s.Tree())
	plain := testbed.Must(net.Dial("tcp", l.Addr()))
	defer plain.Close()
	require.Error(t, testbed.Err(dialRaw(plain, nil, 10*time.Second)))
	l.Stop()
	over(t, c)
}

func TestLatencyIsTheSameForOneRequestAndForMany(t *testing.T) {
	alone(t, func(t *testing.T, s *zktest.Server) {
		began := time.Now()
		c := raw(t, s, nil)
		require.Equal(t, 100*time.Millisecond, time.Since(began), "the handshake")
		began = time.Now()
		mustCreate(t, c, "/a", 0)
		require.Equal(t, 100*time.Millisecond, time.Since(began))
		began = time.Now()
		var last int32
		for range 10 {
			last = send(t, c, opGetData, watched("/a", false))
		}
		for xid := last - 9; xid <= last; xid++ {
			require.NoError(t, testbed.Err(c.answer(xid)))
		}
		require.Equal(t, 100*time.Millisecond, time.Since(began), "what is sent at once is answered at once")
	}, zktest.WithLatency(100*time.Millisecond))
}

func TestTheClockMovesOn(t *testing.T) {
	alone(t, func(t *testing.T, s *zktest.Server) {
		c := raw(t, s, nil) // a session of 10 s
		mustCreate(t, c, "/owned", 1)
		ask(t, c, opCreateTTL, createTTL("/ttl", 60_000))
		s.Advance(-time.Hour)
		s.Advance(7 * time.Second)
		require.Len(t, s.Sessions(), 1)
		ping(t, c)
		s.Advance(7 * time.Second)
		require.Len(t, s.Sessions(), 1, "it was heard in between")
		s.Advance(7 * time.Second)
		require.Empty(t, s.Sessions(), "14 seconds without a word")
		over(t, c)
		require.Equal(t, "/ttl \"\" ttl 1m0s\n", s.Tree())
		s.Advance(time.Minute)
		require.Empty(t, s.Tree())

		began := time.Now()
		require.NoError(t, s.Create("/later", nil))
		require.Equal(t, began.Add(81*time.Second).UnixMilli(), testbed.ServerStat(t, s, "/later").Ctime)
		c = raw(t, s, nil)
		time.Sleep(9 * time.Second)
		require.Len(t, s.Sessions(), 1, "a new session has its whole time")
		time.Sleep(4 * time.Second)
		require.Empty(t, s.Sessions())
		over(t, c)

		c = raw(t, s, nil)
		s.Pause()
		s.Advance(time.Hour)
		require.Len(t, s.Sessions(), 1, "a server that stands still ends nothing")
		s.Resume()
		over(t, c)
	}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "86400000"}))
}

// TestAClientOfAFrozenAddressReachesNothing freezes one client of two, and each session that it
// asks for.
func TestAClientOfAFrozenAddressReachesNothing(t *testing.T) {
	s := zktest.NewServer(t)
	l := testbed.Must(s.Listen("127.0.0.1:0", nil))
	frozen, other := at(t, l.Addr(), nil), at(t, s.Addr(), nil)
	l.Freeze()
	xid := send(t, frozen, opCreate, create("/n", 0))
	again := testbed.Must(net.Dial("tcp", l.Addr()))
	t.Cleanup(func() { again.Close() })
	answered := testbed.Go(func() error { return testbed.Err(dialRaw(again, nil, 10*time.Second)) })
	for range 20 {
		ping(t, other)
	}
	require.False(t, s.Exists("/n"))
	require.Len(t, s.Sessions(), 2)
	require.Empty(t, answered)
	l.Thaw()
	require.NoError(t, testbed.Err(frozen.answer(xid)))
	require.NoError(t, <-answered)
	l.Freeze()
	s.ClearFaults()
	ping(t, frozen)
}
