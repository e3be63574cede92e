package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// asProgram is in the environment of processes that are the program and not its tests.
const asProgram = "BENCH_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// networked has a network before the server, in a process of its own.
func networked(t *testing.T, s *servers, delay time.Duration) *servers {
	t.Helper()
	t.Setenv(asProgram, "1")
	stop, err := s.addNetwork(context.WithoutCancel(t.Context()), delay) // it ends with stop
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, stop()) })
	near := testbed.Must(s.forClients(t.Context(), anyServer))
	return near
}

func TestNetworkDelaysEachWay(t *testing.T) {
	const delay = 20 * time.Millisecond
	s := &servers{addresses: zktest.NewServer(t).Servers()}
	near := networked(t, s, delay)
	assert.NotEqual(t, s.addresses, near.addresses)

	began := time.Now()
	a := testbed.Must(ask(t.Context(), near.addresses[0]))
	assert.Equal(t, role("standalone"), a.role)
	assert.GreaterOrEqual(t, time.Since(began), 2*delay)

	cycle := func(kind kind) time.Duration {
		e := testbed.Must(enter(t.Context(), s, system{"ours", enterOurs}, workload{kind: kind, locks: 1, waiters: 1}))
		defer e.close()
		m := testbed.Must(e.turn(t.Context(), s, 10*delay))
		return m.perCycle()
	}
	assert.GreaterOrEqual(t, cycle(mutexes), 4*delay, "create and delete are two round trips")
	assert.GreaterOrEqual(t, cycle(published), 4*delay, "a Multi is one")
}

// TestNetworkIsNotAQueue sends many requests at once: all of them have one delay.
func TestNetworkIsNotAQueue(t *testing.T) {
	const delay, locks = 50 * time.Millisecond, 50
	s := &servers{addresses: zktest.NewServer(t).Servers()}
	networked(t, s, delay)
	e, err := enter(t.Context(), s, system{"floor", enterFloor}, workload{kind: mutexes, locks: locks, waiters: 1})
	require.NoError(t, err)
	defer e.close()
	m := testbed.Must(e.turn(t.Context(), s, 4*delay))
	assert.GreaterOrEqual(t, m.cycles, locks)
	assert.Less(t, m.perCycle(), 4*delay, "the locks do not wait for each other")
}

// TestNetworkPassesTheEndOn closes connections at each side, and then the network.
func TestNetworkPassesTheEndOn(t *testing.T) {
	l := testbed.Must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	near := networked(t, &servers{addresses: []string{l.Addr().String()}}, time.Millisecond)
	connect := func() (client, server net.Conn) {
		client = testbed.Must(net.Dial("tcp", near.addresses[0]))
		server = testbed.Must(l.Accept())
		for _, c := range []net.Conn{client, server} {
			t.Cleanup(func() { c.Close() })
			require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		}
		return client, server
	}
	client, server := connect()
	testbed.Must(client.Write([]byte("last words")))
	require.NoError(t, client.Close())
	said, err := io.ReadAll(server)
	require.NoError(t, err, "the client's end")
	assert.Equal(t, "last words", string(said))

	client, server = connect()
	require.NoError(t, server.Close())
	_, err = client.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err, "the server's end")
}

func TestNetworkIsInTheOutput(t *testing.T) {
	t.Setenv(asProgram, "1")
	s := &servers{addresses: zktest.NewServer(t).Servers()}
	o := options{rounds: 1, turn: 10 * time.Millisecond, out: t.TempDir(), run: regexp.MustCompile("^uncontended, mutex$"), network: time.Millisecond}
	require.NoError(t, o.measure(t.Context(), s, "1"))
	text := testbed.Must(os.ReadFile(filepath.Join(o.out, "bench-1-network-1ms.md")))
	assert.Contains(t, string(text), "# Servers: 1; 1ms of network each way\n")
	assert.Regexp(t, `\| uncontended, mutex \| ([4-9]|\d{2,})\.\d+ \|`, string(text), "two round trips of 2 ms")
}

func TestNetworkIsNotForAll(t *testing.T) {
	assert.ErrorContains(t, (&options{caching: true, network: time.Millisecond}).main(context.Background()), "-caches has no -network")
	assert.ErrorContains(t, serveNetwork(context.Background(), "127.0.0.1", 0, nil, nil, nil), "is not positive")
	s := &servers{addresses: []string{"nowhere:1"}, network: ""}
	t.Setenv(asProgram, "1")
	_, err := s.addNetwork(context.Background(), -1)
	assert.ErrorContains(t, err, "is not positive", "what the process said")
}
