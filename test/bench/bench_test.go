package main

import (
	"context"
	"encoding/xml"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestEverySystemWorks has the systems that need nothing but ZooKeeper do each kind of work for a
// moment.
func TestEverySystemWorks(t *testing.T) {
	kinds := map[kind]bool{}
	for _, w := range workloads() {
		if kinds[w.kind] && !w.hold || w.waiters*w.locks > 12 && w.kind != handedOn {
			continue
		}
		kinds[w.kind] = true
		t.Run(w.name, func(t *testing.T) {
			s := &servers{addresses: zktest.NewServer(t).Servers()}
			for _, sys := range systems(w, nil) {
				e, err := enter(t.Context(), s, sys, w)
				require.NoError(t, err, sys.name)
				handsOn := w.hold && w.waiters > 1 && w.kind == mutexes
				m, err := e.turn(t.Context(), s, 20*time.Millisecond)
				for d := 40 * time.Millisecond; err == nil && handsOn && len(m.handOffs) == 0 && d < 5*time.Second; d *= 2 {
					m, err = e.turn(t.Context(), s, d) // the machine was busy
				}
				e.close()
				require.NoError(t, err, sys.name)
				assert.Positive(t, m.cycles, sys.name)
				assert.Positive(t, m.requests, sys.name)
				assert.Positive(t, m.bytes, sys.name)
				assert.Greater(t, m.allocs, uint64(m.cycles), sys.name)
				assert.Greater(t, m.allocBytes, m.allocs, sys.name)
				if handsOn {
					assert.NotEmpty(t, m.handOffs, sys.name)
				}
			}
		})
	}
	assert.Len(t, kinds, 10, "all kinds of work")
}

// TestJars: the jars of a set are in the containers of its programs, and a folder without them is
// refused before anything is started.
func TestJars(t *testing.T) {
	dir := t.TempDir()
	var o options
	require.ErrorIs(t, o.newer(dir), os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "zookeeper.cp"), []byte("a.jar\nb.jar\n"), 0o600))
	require.ErrorIs(t, o.newer(dir), os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "curator.cp"), []byte("c.jar\n"), 0o600))
	require.NoError(t, o.newer(dir))
	require.Equal(t, []string{"-v", dir + "/jars:/jars:ro", "-e", "JARS=/jars/a.jar:/jars/b.jar"}, o.jars.of("zookeeper", "other"))
	require.Equal(t, []string{"-e", "JARS=other"}, jars("").of("zookeeper", "other"))
}

// busyTurn measures a turn with so many cycles that other requests are negligible.
func busyTurn(t *testing.T, e *entrant, s *servers) measure {
	t.Helper()
	for d := 50 * time.Millisecond; ; d *= 2 {
		m := testbed.Must(e.turn(t.Context(), s, d))
		if m.cycles >= 30 {
			return m
		}
	}
}

// TestRequestsOfACycle has each kind of release, and counts: they differ in that.
func TestRequestsOfACycle(t *testing.T) {
	want := map[kind]map[string]float64{
		mutexes:   {"floor": 2, "zk.Lock": 3, "ours": 2},
		retained:  {"floor": 2, "zk.Lock": 3, "ours, plain": 2, "ours": 0},
		published: {"floor": 3, "ours, plain": 3, "ours": 2},
	}
	for _, w := range workloads() {
		requests, ok := want[w.kind]
		if !ok || w.waiters > 1 || w.locks > 1 || w.at != anyServer {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			server := zktest.NewServer(t)
			s := &servers{addresses: server.Servers()}
			got := map[string]float64{}
			for _, sys := range systems(w, nil) {
				e, err := enter(t.Context(), s, sys, w)
				require.NoError(t, err, sys.name)
				busyTurn(t, e, s) // the client learns the queue
				m := busyTurn(t, e, s)
				got[sys.name] = math.Round(perCycle(m, float64(m.requests)))
				e.close()
			}
			assert.Equal(t, requests, got)
			assert.NotContains(t, server.Tree(), "-lock-", "every hold was released")
		})
	}
}

// entered returns this library's side of a workload, ready on its own server.
func entered(t *testing.T, w workload) (*zktest.Server, *servers, *entrant) {
	t.Helper()
	server := zktest.NewServer(t)
	s := &servers{addresses: server.Servers()}
	e := testbed.Must(enter(t.Context(), s, system{"ours", enterOurs}, w))
	t.Cleanup(e.close)
	return server, s, e
}

// TestPublishedIsWritten checks the node that holders write.
func TestPublishedIsWritten(t *testing.T) {
	for _, kind := range []kind{written, published} {
		server, s, e := entered(t, workload{kind: kind, locks: 1, waiters: 1})
		assert.Positive(t, testbed.Must(e.turn(t.Context(), s, 20*time.Millisecond)).cycles)
		assert.Regexp(t, `-data "x"`, server.Tree())
	}
}

// TestClientsConnectToOneServer counts what each server receives.
func TestClientsConnectToOneServer(t *testing.T) {
	cluster := zktest.NewCluster(t, 3)
	lead := testbed.Must(cluster.WaitLeader(t.Context()))
	s := &servers{addresses: cluster.Servers()}
	received := func() (counts []int64) {
		for _, address := range s.addresses {
			a := testbed.Must(ask(t.Context(), address))
			counts = append(counts, a.received)
		}
		return counts
	}
	for _, w := range workloads() {
		if w.at == anyServer {
			continue
		}
		for _, sys := range systems(w, []string{"etcd", "redis"}) {
			e := testbed.Must(enter(t.Context(), s, sys, w))
			before := received()
			busyTurn(t, e, s)
			e.close()
			after, busy := received(), []role{}
			for i, n := range after {
				if n-before[i] < 40 { // the others are asked by counters, and by received
					continue
				}
				busy = append(busy, map[bool]role{true: atLeader, false: atFollower}[s.addresses[i] == lead.Servers()[0]])
			}
			assert.Equal(t, []role{w.at}, busy, "%s, %s", w.name, sys.name)
		}
	}
}

// TestAServerThatDoesNotAnswer has one that is starting, which accepts a connection and says
// nothing.
func TestAServerThatDoesNotAnswer(t *testing.T) {
	l := testbed.Must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, testbed.Err(ask(ctx, l.Addr().String())), os.ErrDeadlineExceeded)
}

func TestOneServerHasNoRole(t *testing.T) {
	s := &servers{addresses: zktest.NewServer(t).Servers()}
	assert.ErrorContains(t, testbed.Err(s.forClients(t.Context(), atLeader)), "none of")
	o := options{rounds: 1, turn: time.Millisecond, out: t.TempDir(), run: regexp.MustCompile("at the leader$")}
	require.NoError(t, o.measure(t.Context(), s, "1"))
	assert.Equal(t, "# Servers: 1\n", string(testbed.Must(os.ReadFile(filepath.Join(o.out, "bench-1.md")))))
}

func TestTable(t *testing.T) {
	turn := measure{cycles: 10, took: time.Millisecond, requests: 20, bytes: 3000, allocs: 120, allocBytes: 4560}
	other := measure{cycles: 10, took: 2 * time.Millisecond} // in another process
	columns := []column{{"floor", []measure{turn}}, {"Curator", []measure{other}}}
	var text strings.Builder
	table{workload{name: "work"}, columns}.print(&text)
	assert.Equal(t, `
work

| | a cycle | × floor | 99 % | requests | bytes | CPU client | CPU servers | allocations | allocated bytes |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| floor | 100 µs | 1.00 | 1.00 | 2.0 | 300 | 0.0 µs | 0.0 µs | 12 | 456 |
| Curator | 200 µs | 2.00 | 2.00 | 0.0 |  | 0.0 µs | 0.0 µs |  |  |
`, text.String())
}

func TestSummary(t *testing.T) {
	turn := measure{cycles: 10, took: 3 * time.Millisecond, requests: 20, bytes: 3000}
	slow := measure{cycles: 10, took: 1234 * time.Millisecond, requests: 30}
	redis := measure{cycles: 9, givenUp: 1, took: 270 * time.Microsecond}
	ours := measure{cycles: 10, requests: 40, bytes: 50, handOffs: []time.Duration{2 * time.Millisecond}}
	tables := []table{
		{workload{name: "work"}, []column{{"floor", []measure{turn}}, {"Curator", []measure{slow}}, {"redsync", []measure{redis}}}},
		{workload{name: "holds", hold: true}, []column{{"floor", []measure{turn}}, {"ours", []measure{ours}}}},
	}
	var text strings.Builder
	summary(&text, "3", tables)
	assert.Equal(t, `# Servers: 3

Time of a cycle in ms, or, where it says so, from the call of a release until the next acquire returns. A time is the median of the rounds.
In parentheses: the median of its ratios, in the same round, to the time of the row that has none; "none" means that no hand-off happened.

| | floor | Curator | redsync | ours |
| --- | --- | --- | --- | --- |
| work | 0.30 | 123.4 (411.33) | 0.03 (0.10) |  |
| holds: hand-off | none |  |  | 2.00 (0.00) |

Requests and bytes for each cycle, as far as they were counted:

| | floor | Curator | ours |
| --- | --- | --- | --- |
| work | 2.0, 300 | 3.0 |  |
| holds | 2.0, 300 |  | 4.0, 5 |

work: redsync gave up 10 % of its tries, which are not counted.
`, text.String())
}

func TestOutput(t *testing.T) {
	s := &servers{addresses: zktest.NewServer(t).Servers()}
	o := options{rounds: 2, turn: 10 * time.Millisecond, out: t.TempDir(), run: regexp.MustCompile("^(2|10) waiters.* no hold")}
	require.NoError(t, o.measure(context.Background(), s, "1"))
	text := testbed.Must(os.ReadFile(filepath.Join(o.out, "bench-1.md")))
	assert.Regexp(t, `(?m)^\| 10 waiters, one client, no hold \| \d`, string(text))
	assert.Contains(t, string(text), "| ours |")
	picture := testbed.Must(os.ReadFile(filepath.Join(o.out, "bench-1.svg")))
	require.NoError(t, xml.Unmarshal(picture, new(struct{})))
	assert.Contains(t, string(picture), "ours, a client each")
}

func TestQuantile(t *testing.T) {
	assert.Equal(t, 0, quantile[int](nil, 0.5))
	assert.Equal(t, 2, quantile([]int{3, 1, 2}, 0.5))
	assert.Equal(t, 3, quantile([]int{3, 1, 2}, 0.99))
}

func TestWhatAPeerSays(t *testing.T) {
	turn := func(text string) (measure, error) {
		p := testbed.Must(startPeer("peer", exec.Command("sh", "-c", "read line; printf '"+text+"'")))
		defer func() { _ = p.stop() }()
		numbers, err := p.ask("400")
		if err != nil {
			return measure{}, err
		}
		return newMeasure(numbers)
	}
	m := testbed.Must(turn(`7 1000 500 2 30 40\n`))
	assert.Equal(t, measure{cycles: 7, took: 1000, client: 500, givenUp: 2, handOffs: []time.Duration{30, 40}}, m)
	for _, text := range []string{``, `7 1000 500\n`, `Exception in thread\n`} {
		assert.Error(t, testbed.Err(turn(text)), text)
	}
}
