//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// waiting is a zklock that waits behind one participant per name. The first participant holds.
type waiting struct {
	err   bytes.Buffer // to be read when all are idle
	leave []func()     // for those ahead, in order
	done  chan error
}

// waitBehind runs test in virtual time with a zklock that waits with these flags.
func waitBehind(t *testing.T, l *locking, names []string, test func(w *waiting)) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		queue := func(name string) *contended {
			client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext), framework.WithDefaultData([]byte(name)))
			q, err := l.queue(client, "/lock")
			require.NoError(t, err)
			return q
		}
		ctx, w := context.Background(), &waiting{done: make(chan error, 1)}
		for _, name := range names {
			q := queue(name)
			held := testbed.Go(func() *lock.Hold { // ends when it holds
				hold, err := q.Acquire(ctx)
				assert.NoError(t, err)
				return hold
			})
			synctest.Wait()
			w.leave = append(w.leave, func() { assert.NoError(t, (<-held).Release()) })
		}
		q := queue("we")
		go func() { // ends when it holds
			hold, err := l.acquire(ctx, newApp(io.Discard, &w.err), q)
			if err == nil {
				err = hold.Release()
			}
			w.done <- err
		}()
		test(w)
		require.NoError(t, <-w.done)
	})
}

var sessions = regexp.MustCompile(`, session 0x[0-9a-f]+`)

// said returns the messages of zklock since the last call, without sessions.
func (w *waiting) said(after time.Duration) []string {
	time.Sleep(after) // virtual time: the test checks when lines are printed
	synctest.Wait()
	defer w.err.Reset()
	var lines []string
	for line := range strings.Lines(w.err.String()) {
		lines = append(lines, sessions.ReplaceAllString(strings.TrimSpace(line), ""))
	}
	return lines
}

// TestAhead_Changes: with -v the participants ahead are printed once, and after each change.
func TestAhead_Changes(t *testing.T) {
	for name, l := range map[string]locking{"mutex": {}, "election": {election: true}, "writer": {write: true}, "semaphore": {permits: 1}} {
		t.Run(name, func(t *testing.T) {
			l.Verbose = true
			waitBehind(t, &l, []string{"a", "b", "c", "d"}, func(w *waiting) {
				assert.Equal(t, []string{"zklock: waiting for /lock: 4 ahead: a (holds), b (waits), c (waits) and 1 more"}, w.said(time.Minute))
				w.leave[0]()
				assert.Equal(t, []string{"zklock: waiting for /lock: 3 ahead: b (holds), c (waits), d (waits)"}, w.said(time.Minute))
				w.leave[1]()
				w.leave[2]()
				assert.Equal(t, []string{"zklock: waiting for /lock: 1 ahead: d (holds)"}, w.said(time.Minute))
				w.leave[3]()
				assert.Empty(t, w.said(time.Minute))
			})
		})
	}
}

// TestAhead_Silent: without -v, and with no participant ahead, no message is printed.
func TestAhead_Silent(t *testing.T) {
	waitBehind(t, &locking{}, []string{"a"}, func(w *waiting) {
		assert.Empty(t, w.said(time.Minute))
		w.leave[0]()
	})
	waitBehind(t, &locking{Connection: cli.Connection{Verbose: true}}, nil, func(w *waiting) { assert.Empty(t, w.said(time.Minute)) })
}

// TestRunSaysWhoIsAhead: the flag is -v.
func TestRunSaysWhoIsAhead(t *testing.T) {
	t.Parallel() // it waits most of the time
	server := zktest.NewServer(t)
	q, err := new(locking).queue(newClient(t, server), "/lock")
	require.NoError(t, err)
	hold := testbed.Acquire(t, q)
	p := spawn(t, server, "run", "-v", "/lock", "true")
	ahead := func() int { return strings.Count(p.err.String(), "zklock: waiting for /lock: 1 ahead: ") }
	testbed.Eventually(t, func() bool { return ahead() > 0 }, "it says who is ahead")
	require.NoError(t, hold.Release())
	assert.Zero(t, p.end(), p.err.String())
	assert.Equal(t, 1, ahead(), p.err.String())
}
