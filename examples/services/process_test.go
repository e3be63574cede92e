//go:build linux

package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/examples/internal/exampletest"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// roleEnv makes this test program run as an instance or a client, in a process that a test can stop
// and kill. It has the service, the id of an instance or "client", and the servers.
const roleEnv = "CURATOR_SERVICES_TEST_ROLE"

const processPath = "/processes"

func init() {
	role := strings.Fields(os.Getenv(roleEnv))
	if len(role) == 0 {
		return
	}
	service, id, servers := role[0], role[1], strings.Split(role[2], ",")
	p := program{
		log: log.New(os.Stdout, "", 0), path: processPath, session: 4 * time.Second, drain: 500 * time.Millisecond, patience: 20 * time.Second,
		every: 100 * time.Millisecond,
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	if id == "client" {
		err = p.call(ctx, servers, service)
	} else {
		err = p.serve(ctx, servers, service, id)
	}
	if err != nil {
		fmt.Printf("%s: failed: %v\n", id, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// fleet are instances and a client in processes of their own.
type fleet struct {
	t       *testing.T
	ctx     context.Context
	servers []string
	reports chan string // of the client: who answered
	running map[string]*process
}

type process struct {
	*exampletest.Process
	said string // all of it; complete when Ended is closed
}

// start starts a process, which ends with the test at the latest.
func (f *fleet) start(service, id string) {
	f.t.Helper()
	p := &process{}
	p.Process = exampletest.Start(f.t, roleEnv+"="+service+" "+id+" "+strings.Join(f.servers, ","), func(line string) {
		p.said += line + "\n"
		if by, found := strings.CutPrefix(line, "answered by "); found {
			f.reports <- by
		}
	})
	f.running[id] = p
}

// signal sends processes a signal.
func (f *fleet) signal(s syscall.Signal, ids ...string) {
	f.t.Helper()
	for _, id := range ids {
		require.NoError(f.t, f.running[id].Cmd.Process.Signal(s))
	}
}

// ends waits for the end of a process that was asked to stop, checks that it ends without an error,
// and returns what it said.
func (f *fleet) ends(id string) string {
	f.t.Helper()
	p := f.running[id]
	testbed.Receive(f.t, p.Ended, "the end of "+id)
	require.NoError(f.t, p.Wait(), "%s", p.said)
	return p.said
}

// answer waits until these instances, and no others, have answered between two reports.
func (f *fleet) answer(ids ...string) {
	f.t.Helper()
	slices.Sort(ids)
	client := f.running["client"]
	for last := ""; ; {
		select {
		case last = <-f.reports:
			if last == strings.Join(ids, " ") {
				return
			}
		case <-client.Ended:
			require.FailNow(f.t, "the client has ended", "%s", client.said)
		case <-f.ctx.Done():
			require.FailNow(f.t, "waited in vain", "for answers by %v; they came by %s", ids, last)
		}
	}
}

// registered waits until a service has these instances.
func (f *fleet) registered(d *discovery.Discovery[any], service string, want ...string) {
	f.t.Helper()
	w := testbed.Must(d.Watch(f.ctx, service))
	defer w.Close()
	for list, err := range w.Observe(f.ctx) {
		require.NoError(f.t, err)
		var ids []string
		for _, i := range list {
			ids = append(ids, i.ID)
		}
		if slices.Equal(ids, want) {
			return
		}
	}
}

// TestNoRequestIsLostWhileProcessesAreDrainedKilledAndStopped: each of the two services loses three
// of its four instances, by SIGTERM, SIGKILL and SIGSTOP. The stopped one continues later.
func TestNoRequestIsLostWhileProcessesAreDrainedKilledAndStopped(t *testing.T) {
	exampletest.OnServers(t, func(t *testing.T, servers []string) {
		ctx := testbed.Context(t)
		f := &fleet{t: t, ctx: ctx, servers: servers, reports: make(chan string, 10000), running: make(map[string]*process)}
		d := testbed.Must(discovery.New[any](testbed.NewClient(t, servers), processPath))

		both := func(fate string) []string { return []string{"orders-" + fate, "stock-" + fate} }
		drained, killed, stopped, stay := both("drained"), both("killed"), both("stopped"), both("stay")
		for _, ids := range [][]string{drained, killed, stopped, stay} {
			f.start("orders", ids[0])
			f.start("stock", ids[1])
		}
		f.start("orders", "client")
		f.answer(slices.Concat(drained, killed, stopped, stay)...)

		f.signal(syscall.SIGTERM, drained...)
		for _, id := range drained {
			require.Equal(t, id+": registered\n"+id+": drained\n", f.ends(id))
		}
		f.answer(slices.Concat(killed, stopped, stay)...)

		f.signal(syscall.SIGKILL, killed...)
		f.answer(slices.Concat(stopped, stay)...)
		f.signal(syscall.SIGSTOP, stopped...)
		f.registered(d, "orders", "orders-stay") // the sessions of the others are over
		f.registered(d, "stock", "stock-stay")
		f.answer(stay...)

		f.signal(syscall.SIGCONT, stopped...)
		f.answer(slices.Concat(stopped, stay)...)
		f.signal(syscall.SIGTERM, "client")
		require.Contains(t, f.ends("client"), " requests, none failed\n")
		f.signal(syscall.SIGTERM, slices.Concat(stopped, stay)...)
		for _, id := range slices.Concat(stopped, stay) {
			f.ends(id)
		}
	}, zktest.WithProperties(map[string]string{"tickTime": "500"}))
}
