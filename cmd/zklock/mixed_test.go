//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/zktest"
)

// beExclusive makes the test binary run as a command that must run alone: it locks this file
// briefly, or reports a second command. The kernel unlocks the file when the command dies.
const beExclusive = "ZKLOCK_TEST_EXCLUSIVE"

func exclusive(file string) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_, err = fmt.Fprintln(f, "two commands")
		err = errors.Join(err, os.WriteFile(file+".bad", []byte("two commands\n"), 0o600))
	} else if err == nil {
		time.Sleep(20 * time.Millisecond) // the work, in which a second command would be noticed
		_, err = fmt.Fprintln(f, "done")
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func init() {
	if file := os.Getenv(beExclusive); file != "" && os.Getenv(beZklock) == "" {
		exclusive(file)
	}
}

// TestMixedFaults kills zklocks, freezes their connections, expires their sessions, and restarts
// the server, while they take turns. No two commands run at a time, and afterwards they continue.
func TestMixedFaults(t *testing.T) {
	t.Parallel() // it waits most of the time
	rounds := testlevel.Pick(4, 12, 120)
	server := zktest.NewServer(t, zktest.WithProperties(map[string]string{"tickTime": "500"}))
	file := filepath.Join(t.TempDir(), "work")
	done := func() int {
		text, _ := os.ReadFile(file)
		return strings.Count(string(text), "done\n")
	}
	const contenders = 4
	var wg sync.WaitGroup
	var stop atomic.Bool
	var links [contenders]*zktest.Listener
	var running [contenders]atomic.Pointer[os.Process]
	for n := range contenders {
		var err error
		links[n], err = server.Listen("127.0.0.1:0", nil)
		require.NoError(t, err)
		verb := []string{"run", "elect"}[n%2]
		flags := []string{verb, "--session", "2s", "--grace", "300ms", "--connect", "1m"}
		if verb == "elect" {
			flags = append(flags, "--selector") // its nodes are a mutex's
		}
		wg.Go(func() { // ends with stop
			for !stop.Load() {
				p := prepare(t, []string{links[n].Addr()}, append(flags, "/lock", "env", "-u", beZklock, beExclusive+"="+file, os.Args[0])...)
				if !assert.NoError(t, p.Start()) {
					return
				}
				running[n].Store(p.Process)
				_ = p.Wait() // it may have been killed, or have lost the lock
			}
		})
	}
	random := rand.New(rand.NewPCG(1, uint64(rounds)))
	var kinds [5]int
	for range rounds {
		before := done()
		testbed.Eventually(t, func() bool { return done() > before+random.IntN(5) }, "commands run")
		n := random.IntN(contenders)
		kind := random.IntN(len(kinds))
		kinds[kind]++
		switch kind {
		case 0:
			_ = running[n].Load().Kill() // it may have ended
		case 1:
			links[n].Freeze()
			// shorter or longer than a session, in real time
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			links[n].Thaw()
		case 2:
			for _, s := range server.Sessions() {
				_ = server.ExpireSession(s.ID) // it may have ended
			}
		case 3:
			server.Stop()
			// shorter than a session
			time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
			require.NoError(t, server.Restart())
		case 4:
			_ = running[n].Load().Signal(syscall.SIGTERM)
		}
		require.NoFileExists(t, file+".bad")
	}
	before := done()
	testbed.Eventually(t, func() bool { return done() > before+contenders }, "they go on")
	stop.Store(true)
	wg.Wait()
	require.NoFileExists(t, file+".bad")
	t.Logf("%d commands; killed, frozen, expired, restarted, terminated: %v", done(), kinds)
}
