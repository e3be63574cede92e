package main

import (
	"bufio"
	"context"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zktest"
)

// TestEverySystemWorks has the systems that need nothing but ZooKeeper do each kind of work for a moment.
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
				m, err := e.turn(t.Context(), s, 20*time.Millisecond)
				e.close()
				require.NoError(t, err, sys.name)
				assert.Positive(t, m.cycles, sys.name)
				assert.Positive(t, m.requests, sys.name)
				assert.Positive(t, m.bytes, sys.name)
				if w.hold && w.waiters > 1 && w.kind == mutexes {
					assert.NotEmpty(t, m.handOffs, sys.name)
				}
			}
		})
	}
	assert.Len(t, kinds, 7, "all kinds of work")
}

func TestOutput(t *testing.T) {
	s := &servers{addresses: zktest.NewServer(t).Servers()}
	o := options{rounds: 2, turn: 10 * time.Millisecond, out: t.TempDir(), run: regexp.MustCompile("^(2|10) waiters.* no hold")}
	require.NoError(t, o.measure(context.Background(), s, "1"))
	text, err := os.ReadFile(filepath.Join(o.out, "bench-1.md"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "10 waiters, one client, no hold")
	assert.Contains(t, string(text), "| ours |")
	picture, err := os.ReadFile(filepath.Join(o.out, "bench-1.svg"))
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(picture, new(struct{})))
	assert.Contains(t, string(picture), "ours, a client each")
}

func TestQuantile(t *testing.T) {
	assert.Equal(t, 0, quantile[int](nil, 0.5))
	assert.Equal(t, 2, quantile([]int{3, 1, 2}, 0.5))
	assert.Equal(t, 3, quantile([]int{3, 1, 2}, 0.99))
}

func TestWhatAPeerSays(t *testing.T) {
	m, err := readMeasure(bufio.NewReader(strings.NewReader("7 1000 500 30 40\n")))
	require.NoError(t, err)
	assert.Equal(t, measure{cycles: 7, took: 1000, client: 500, handOffs: []time.Duration{30, 40}}, m)
	for _, text := range []string{"", "7 1000\n", "Exception in thread\n"} {
		_, err := readMeasure(bufio.NewReader(strings.NewReader(text)))
		assert.Error(t, err, text)
	}
}
