//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/examples/internal/exampletest"
)

// instanceEnv makes this test program run as an instance, in a process that a test can stop and
// kill. It has the id, the session timeout and the servers.
const instanceEnv = "CURATOR_SCHEDULER_TEST_INSTANCE"

func init() {
	id, rest, found := strings.Cut(os.Getenv(instanceEnv), " ")
	if !found {
		return
	}
	timeout, servers, _ := strings.Cut(rest, " ")
	session, err := time.ParseDuration(timeout)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		s := scheduler{out: &lines{out: os.Stdout}, id: id, path: processPath, every: 20 * time.Millisecond, timeout: session}
		err = s.run(ctx, strings.Split(servers, ","))
	}
	if err != nil {
		fmt.Printf("%s: failed: %v\n", id, err)
		os.Exit(1)
	}
	os.Exit(0)
}

const processPath = "/processes"

// fleet are instances in processes of their own.
type fleet struct {
	t       *testing.T
	ctx     context.Context
	env     string // after the id
	said    chan string
	running map[string]*exampletest.Process
	done    map[int]string // who did a job
}

func newFleet(t *testing.T, servers []string, session time.Duration) *fleet {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	return &fleet{
		t: t, ctx: ctx,
		env:     " " + session.String() + " " + strings.Join(servers, ","),
		said:    make(chan string, 10000),
		running: make(map[string]*exampletest.Process),
		done:    make(map[int]string),
	}
}

// start starts an instance, which ends with the test at the latest.
func (f *fleet) start(id string) {
	f.t.Helper()
	f.running[id] = exampletest.Start(f.t, instanceEnv+"="+id+f.env, func(line string) { f.said <- line })
}

// signal sends an instance a signal.
func (f *fleet) signal(id string, s syscall.Signal) {
	f.t.Helper()
	require.NoError(f.t, f.running[id].Process.Signal(s))
}

// exits waits for the end of an instance that was asked to stop, and checks that it ends without an
// error.
func (f *fleet) exits(id string) {
	f.t.Helper()
	require.NoError(f.t, f.running[id].Wait())
	delete(f.running, id)
}

// hear waits for a line that matches, and checks on the way that no job is done twice.
func (f *fleet) hear(what string, match func(id, line string) bool) (id string) {
	f.t.Helper()
	for {
		select {
		case text := <-f.said:
			id, line, _ := strings.Cut(text, ": ")
			require.NotContains(f.t, line, "failed", text)
			if number, found := strings.CutPrefix(line, "did job "); found {
				job, err := strconv.Atoi(number)
				require.NoError(f.t, err)
				require.Empty(f.t, f.done[job], "job %d was done twice, now by %s", job, id)
				f.done[job] = id
			}
			if match(id, line) {
				return id
			}
		case <-f.ctx.Done():
			require.FailNow(f.t, "waited in vain for "+what)
		}
	}
}

// leads waits for a term of another instance than but, and returns its id.
func (f *fleet) leads(but string) (id string) {
	f.t.Helper()
	return f.hear("a leader", func(id, line string) bool { return line == "leads" && id != but })
}

// works waits until an instance has done a job.
func (f *fleet) works(id string) {
	f.t.Helper()
	f.hear(id+" to do a job", func(by, line string) bool { return by == id && strings.HasPrefix(line, "did job") })
}

// TestDeployHandsOver sends the active instance SIGTERM, one after the other.
func TestDeployHandsOver(t *testing.T) {
	exampletest.OnServers(t, func(t *testing.T, servers []string) {
		const session = 40 * time.Second
		f := newFleet(t, servers, session)
		for _, id := range []string{"a", "b", "c"} {
			f.start(id)
		}
		active := f.leads("")
		for range 2 {
			f.works(active)
			began := time.Now()
			f.signal(active, syscall.SIGTERM)
			var next string
			stopped := false
			// lines of two processes arrive in any order
			f.hear("the hand-over", func(id, line string) bool {
				stopped = stopped || id == active && strings.HasPrefix(line, "stops")
				if line == "leads" && id != active {
					next = id
				}
				return stopped && next != ""
			})
			require.Less(t, time.Since(began), session/2, "nobody waits for a session to end")
			f.exits(active)
			active = next
		}
		f.works(active)
	})
}

// TestAnotherLeadsAfterACrash kills the active instance.
func TestAnotherLeadsAfterACrash(t *testing.T) {
	t.Parallel() // it waits most of the time
	exampletest.OnServers(t, func(t *testing.T, servers []string) {
		f := newFleet(t, servers, 4*time.Second)
		f.start("a")
		f.start("b")
		active := f.leads("")
		f.works(active)
		f.signal(active, syscall.SIGKILL)
		next := f.leads(active)
		require.NotEqual(t, active, next)
		f.works(next)
	})
}

// TestAStoppedLeaderDoesNothingWhenItGoesOn stops the active instance (SIGSTOP) for longer than its
// session.
func TestAStoppedLeaderDoesNothingWhenItGoesOn(t *testing.T) {
	t.Parallel() // it waits most of the time
	exampletest.OnServers(t, func(t *testing.T, servers []string) {
		f := newFleet(t, servers, 4*time.Second)
		f.start("a")
		f.start("b")
		old := f.leads("")
		f.works(old)
		f.signal(old, syscall.SIGSTOP)
		next := f.leads(old)
		f.works(next)
		f.signal(old, syscall.SIGCONT)
		f.hear("its end of work", func(id, line string) bool {
			return id == old && (line == "refused" || strings.HasPrefix(line, "stops"))
		})
		f.works(next) // undisturbed; hear finds a job that is done twice

		f.signal(next, syscall.SIGTERM) // and the old one is a candidate again
		require.Equal(t, old, f.leads(next))
		f.works(old)
	})
}
