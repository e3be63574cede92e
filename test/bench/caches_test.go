package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// ourCaches runs this library's program in this process.
func ourCaches(t *testing.T, s *servers) *peer {
	t.Helper()
	return peerHere(t, "ours", func(in io.Reader, out io.Writer) error {
		return serveCaches(t.Context(), strings.Join(s.addresses, ","), in, out)
	})
}

// peerHere is a peer in this process.
func peerHere(t *testing.T, who string, serve func(in io.Reader, out io.Writer) error) *peer {
	t.Helper()
	in, asked := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { // ends with its input
		err := serve(in, out)
		in.CloseWithError(io.ErrClosedPipe)
		out.Close()
		ended <- err
	}()
	p := &peer{who, asked, bufio.NewReader(answers), func() error {
		asked.Close()
		err := <-ended
		ended <- err
		return err
	}}
	t.Cleanup(func() { _ = p.stop() })
	return p
}

func TestCachesAreCompared(t *testing.T) {
	server := zktest.NewServer(t)
	s := &servers{addresses: server.Servers()}
	b := cacheBench{servers: s, rounds: 2, loads: []int{10, 1500}, rate: 500, writing: 200 * time.Millisecond, burst: 300}
	columns := testbed.Must(b.run(context.Background(), []*peer{ourCaches(t, s), ourCaches(t, s)}))
	require.Len(t, columns, 2)
	assert.NotContains(t, server.Tree(), "caches", "nothing stays on servers that are not ours")
	for _, c := range columns {
		require.Len(t, c.rounds, 2, "the first round is not counted")
		got := map[string]float64{}
		for _, f := range c.rounds[1] {
			got[f.name] = f.value
		}
		for _, name := range []string{"load 10 nodes of 100 bytes", "load 1500 nodes of 100 bytes", "delay at 500 writes/s, 50 %", "delay at 500 writes/s, 99 %"} {
			assert.Positive(t, got[name], name)
		}
		assert.Equal(t, figure{"nodes that were loaded, with their directories", "", 10 + 2}, c.rounds[1][1])
		assert.Equal(t, figure{"nodes that were loaded, with their directories", "", 1500 + 3}, c.rounds[1][4])
		assert.Greater(t, got["heap for each of them"], 100.0, "their data have 100 bytes")
		assert.InDelta(t, 1, got["events for each write"], 0.5)
		reads := got["reads for 300 writes to one node"]
		assert.Positive(t, reads)
		assert.LessOrEqual(t, reads, 300.0, "the writes are not among them")
	}

	var text strings.Builder
	printCaches(&text, columns)
	assert.Contains(t, text.String(), "| | ours | ours | × ours |\n")
	assert.Equal(t, 2+len(columns[0].rounds[0]), strings.Count(text.String(), "|\n"))
}

func TestCachesTableHasMediansOfRounds(t *testing.T) {
	column := func(name string, values ...float64) (c cacheColumn) {
		c.system = name
		for _, v := range values {
			c.rounds = append(c.rounds, []figure{{"load", "ms", v}})
		}
		return c
	}
	var text strings.Builder
	printCaches(&text, []cacheColumn{column("a", 1, 20, 10), column("b", 3, 40, 10)})
	assert.Equal(t, "\n| | a | b | × a |\n| --- | --- | --- | --- |\n| load | 10 ms | 10 ms | 2.00 |\n", text.String())

	text.Reset()
	printCaches(&text, []cacheColumn{column("a", 1, 20), column("b", 3, math.NaN())})
	assert.Contains(t, text.String(), "| load | 20 ms | – | – |\n", "one load was not complete")
}

func TestACachePeerThatFailsSaysWhy(t *testing.T) {
	s := &servers{addresses: zktest.NewServer(t).Servers()}
	for _, line := range []string{"fly", "load", "load no-path", "follow end", "delays"} {
		assert.ErrorContains(t, testbed.Err(ourCaches(t, s).ask(line)), fmt.Sprintf("%q", line), line)
	}
}
