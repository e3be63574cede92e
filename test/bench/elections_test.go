package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestElectionsAreCompared has processes that lead, resign and are killed.
func TestElectionsAreCompared(t *testing.T) {
	t.Setenv(asProgram, "1")
	const timeout = 4 * time.Second
	server := zktest.NewServer(t, zktest.WithProperties(map[string]string{"tickTime": fmt.Sprint((timeout / 10).Milliseconds())}))
	systems := testbed.Must((&options{session: timeout}).electionSystems(&servers{addresses: server.Servers()}))
	b := electionBench{timeout: timeout, handOvers: 5, warmUp: 1, kills: 2, pause: 10 * time.Millisecond}
	results := testbed.Must(b.run(t.Context(), systems))
	require.Len(t, results, 2)
	floor, ours := results[0], results[1]
	assert.Equal(t, "floor", floor.system)
	assert.Empty(t, floor.kills)
	assert.Equal(t, "ours", ours.system)
	assert.Equal(t, timeout, ours.timeout)
	require.Len(t, ours.kills, 2)
	for _, took := range ours.kills {
		assert.Greater(t, took, timeout/2, "only the end of the session ends the term")
	}
	for _, r := range results {
		require.Len(t, r.handOvers, 5, "the first one is not counted")
		for _, took := range r.handOvers {
			assert.Positive(t, took, r.system)
		}
		assert.Less(t, quantile(r.handOvers, 0.5), timeout/2, "%s: sessions have ended instead", r.system)
	}
}

func TestElectionsNeedTheirTimeout(t *testing.T) {
	t.Setenv(asProgram, "1")
	// grants 2 s at least
	server := zktest.NewServer(t, zktest.WithProperties(map[string]string{"tickTime": "1000"}))
	systems := testbed.Must((&options{session: time.Second}).electionSystems(&servers{addresses: server.Servers()}))
	_, err := (&electionBench{timeout: time.Second}).run(t.Context(), systems)
	assert.ErrorContains(t, err, "ours: session timeout 2s instead of 1s")
}

// TestAnElectionHasOneLeader has two candidates of each kind in this process.
func TestAnElectionHasOneLeader(t *testing.T) {
	for _, who := range []string{"floor", "ours"} {
		server := zktest.NewServer(t)
		first, second := candidateFor(t, who, server), candidateFor(t, who, server)
		ask := func(p *peer, line string) int64 {
			t.Helper()
			n, err := p.number(line)
			require.NoError(t, err, "%s: %s", who, line)
			return n
		}
		ask(first, "join /election")
		assert.Positive(t, ask(first, "lead"))
		ask(second, "join /election")
		led := make(chan int64)
		go func() {
			n, _ := second.number("lead")
			led <- n
		}()
		select {
		case <-led:
			t.Fatalf("%s: there are two leaders", who)
		case <-time.After(50 * time.Millisecond):
		}
		resigned := ask(first, "resign")
		assert.Greater(t, <-led, resigned, who)
	}
}

// candidateFor is a candidate in this process.
func candidateFor(t *testing.T, who string, server *zktest.Server) *peer {
	t.Helper()
	return peerHere(t, who, func(in io.Reader, out io.Writer) error {
		return serveElections(t.Context(), who, server.Servers(), 10*time.Second, in, out)
	})
}

func TestACandidateThatFailsSaysWhy(t *testing.T) {
	server := zktest.NewServer(t)
	for _, line := range []string{"fly", "join", "join no-path", "lead", "resign"} {
		for _, who := range []string{"ours", "floor"} {
			assert.ErrorContains(t, testbed.Err(candidateFor(t, who, server).ask(line)), `"`+line+`"`, who)
		}
	}
	assert.ErrorContains(t, testbed.Err(candidateFor(t, "nobody", server).ask("lead")), `unknown candidate "nobody"`)
}

// TestOnlyACandidateIsKilled looks at processes by their command lines.
func TestOnlyACandidateIsKilled(t *testing.T) {
	assert.False(t, isCandidate(os.Getpid()))
	assert.False(t, isCandidate(1))
	assert.False(t, isCandidate(0))
	t.Setenv(asProgram, "1")
	systems, err := (&options{session: time.Second}).electionSystems(&servers{addresses: zktest.NewServer(t).Servers()})
	require.NoError(t, err)
	for _, s := range systems {
		cmd := s.command(t.Context(), "")
		p := testbed.Must(startPeer(s.name, cmd))
		testbed.Must(p.number("join /candidate-" + s.name))
		assert.True(t, isCandidate(cmd.Process.Pid), s.name)
		assert.NoError(t, p.stop())
	}
}

func TestElectionsTable(t *testing.T) {
	var text strings.Builder
	ms := time.Millisecond
	printElections(&text, "; remark", []electionResult{
		{system: "floor", handOvers: []time.Duration{1 * ms, 4 * ms, 2 * ms}},
		{system: "ours", handOvers: []time.Duration{3 * ms, 4 * ms, 4 * ms}, kills: []time.Duration{3900 * ms, 5100 * ms, 4000 * ms},
			timeout: 4 * time.Second},
	})
	assert.Equal(t, `
elections; remark

| | resign to the next term | × floor | 99 % | worst | rounds | kill -9 to the next term | least | worst | rounds | session timeout |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| floor | 2.00 ms | 1.00 | 4.00 ms | 4.00 ms | 3 |  |  |  |  |  |
| ours | 4.00 ms | 2.00 | 4.00 ms | 4.00 ms | 3 | 4000.00 ms | 3900.00 ms | 5100.00 ms | 3 | 4s |
`, text.String())
}
