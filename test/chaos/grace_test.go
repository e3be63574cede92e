//go:build linux

package chaos

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/shard"
)

const (
	gracePath   = "/chaos/grace"
	graceShards = 12
	graceTime   = 20 * time.Second
)

// owned is a call of a shard's function, as its member recorded it.
type owned struct {
	Shard int
	From  time.Duration
	To    time.Duration // 0: not yet

	// What follows is the test's.
	member   string
	reserved bool // it has ended with its process, whose shards are reserved
}

// beMember is the whole life of a member's process. It leaves at the end of standard input, and
// drains at SIGUSR1.
func (o orders) beMember(ctx context.Context) error {
	client, err := framework.New(o.Servers, framework.WithSessionTimeout(4*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	member, err := shard.New(client, gracePath, o.Member, graceShards, shard.WithGrace(graceTime))
	if err != nil {
		return err
	}
	running, leave := context.WithCancel(ctx)
	defer leave()
	go func() { // ends with the process at the latest
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		leave()
	}()
	drain := make(chan os.Signal, 1)
	signal.Notify(drain, syscall.SIGUSR1)
	go func() { // ends with the process at the latest
		<-drain
		_ = member.Drain(ctx)
	}()
	var mu sync.Mutex // guards out
	out := json.NewEncoder(os.Stdout)
	report := func(c owned) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(message{Owned: &c})
	}
	err = member.Run(running, func(ctx context.Context, index int) error {
		c := owned{Shard: index, From: now()}
		report(c)
		<-ctx.Done()
		c.To = now()
		report(c)
		return nil
	})
	if running.Err() != nil {
		return nil
	}
	return err
}

// fleet is a group of members in processes of their own.
type fleet struct {
	t       *testing.T
	orders  orders
	client  *framework.Client
	running map[string]*process
	began   map[string]int // incarnations

	mu    sync.Mutex // guards what follows
	calls []owned    // in the order of their beginning, as it was heard
}

func (f *fleet) start(ids ...string) {
	for _, id := range ids {
		f.began[id]++
		o := f.orders
		o.Member = id
		p, err := startProcess(o, func(m message) {
			if m.Owned != nil {
				f.hear(id, *m.Owned)
			}
		})
		require.NoError(f.t, err)
		f.running[id] = p
	}
}

func (f *fleet) hear(id string, c owned) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.member = id
	same := func(known owned) bool { return known.member == id && known.Shard == c.Shard && known.From == c.From }
	if i := slices.IndexFunc(f.calls, same); i >= 0 {
		f.calls[i] = c
	} else {
		f.calls = append(f.calls, c)
	}
}

// kill ends processes with SIGKILL. Their shards are reserved.
func (f *fleet) kill(ids ...string) {
	for _, id := range ids {
		f.end(id, true)
	}
}

func (f *fleet) end(id string, reserved bool) {
	f.running[id].kill()
	delete(f.running, id)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, c := range f.calls {
		if c.member == id && c.To == 0 {
			f.calls[i].To, f.calls[i].reserved = now(), reserved
		}
	}
}

// owners returns the owner of each shard that has one.
func (f *fleet) owners() map[int]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	owners := make(map[int]string)
	for _, c := range f.calls {
		if c.To == 0 {
			owners[c.Shard] = c.member
		}
	}
	return owners
}

// settled waits until each of the members that run has its share, and returns the owners.
func (f *fleet) settled(what string) map[int]string {
	f.t.Helper()
	began := now()
	share := graceShards / len(f.running)
	testbed.Eventually(f.t, func() bool {
		load := make(map[string]int)
		for _, id := range f.owners() {
			load[id]++
		}
		return len(load) == len(f.running) && !slices.ContainsFunc(slices.Collect(maps.Values(load)), func(n int) bool { return n != share })
	}, what)
	f.t.Logf("%s: each member has its share after %v", what, (now() - began).Round(time.Millisecond))
	return f.owners()
}

// absent waits until the plan reserves the shards of a member.
func (f *fleet) absent(id string) {
	f.t.Helper()
	testbed.Eventually(f.t, func() bool {
		data, _, err := f.client.Get(f.t.Context(), gracePath+"/plan")
		var plan struct {
			Stays map[string]struct{ Absent int64 }
		}
		return err == nil && json.Unmarshal(data, &plan) == nil && plan.Stays[id].Absent != 0
	}, "the absence of "+id+" in the plan")
}

// planner waits until a member is the planner, and returns it.
func (f *fleet) planner() (id string) {
	f.t.Helper()
	election, err := leader.New(f.client, gracePath+"/planner")
	require.NoError(f.t, err)
	testbed.Eventually(f.t, func() bool {
		p, err := election.Leader(f.t.Context())
		id = p.ID
		return err == nil && f.running[id] != nil
	}, "a planner")
	return id
}

// joined waits until a member's newest process has its node: it has deleted the former one.
func (f *fleet) joined(id string, after int64) (created int64) {
	f.t.Helper()
	testbed.Eventually(f.t, func() bool {
		found, stat, err := f.client.Exists(f.t.Context(), gracePath+"/members/"+id)
		if err == nil && found {
			created = stat.Czxid
		}
		return created > after
	}, "the node of "+id)
	return created
}

// TestGrace kills processes of members at the steps of a grace.
func TestGrace(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly)
	e := ensemble.New(t)
	client := testbed.Must(framework.New(e.Servers()))
	defer client.Close()
	ctx := testbed.Context(t)
	f := &fleet{t: t, client: client, running: make(map[string]*process), began: make(map[string]int), orders: orders{Servers: e.Servers(), Timeout: time.Hour}}
	defer func() {
		for _, p := range f.running {
			p.kill()
		}
	}()
	ids := []string{"a", "b", "c", "d"}
	f.start(ids...)
	before := f.settled("start")
	other := func(than ...string) string {
		left := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(than, id) })
		return left[rand.IntN(len(left))]
	}
	moves := func(what string, since time.Duration) {
		t.Helper()
		after := f.settled(what)
		// With a machine that was too slow for the grace, the check of all calls has to do.
		if now()-since < graceTime {
			assert.Equal(t, before, after, "%s moves shards", what)
		}
		before = after
	}

	killed := now()
	x := other(f.planner())
	f.kill(x)
	f.start(x)
	moves("a member is killed, and back before its session expires", killed)

	killed = now()
	x = f.planner()
	f.kill(x)
	f.start(x)
	moves("the planner is killed, and back before its session expires", killed)

	for _, who := range []string{"a member", "the planner"} {
		killed = now()
		if x = f.planner(); who == "a member" {
			x = other(x)
		}
		f.kill(x)
		f.absent(x)
		f.start(x)
		moves(who+" is killed, and back within its grace", killed)
	}

	killed = now()
	p := f.planner()
	x = other(p)
	f.kill(x)
	f.absent(x)
	f.kill(p)
	f.start(x, p)
	moves("the planner is killed when it has written the absence of a member", killed)

	killed = now()
	x = other(f.planner())
	node := f.joined(x, 0)
	for range 3 {
		f.kill(x)
		f.start(x)
		node = f.joined(x, node)
	}
	f.kill(x)
	f.absent(x)
	f.start(x)
	moves("a member is killed each time that it has joined", killed)

	killed = now()
	f.kill(ids...)
	f.start(ids...)
	moves("all are killed, and back", killed)

	killed = now()
	x = other(f.planner())
	f.kill(x)
	f.absent(x)
	server, err := e.Leader(ctx)
	require.NoError(t, err)
	require.NoError(t, e.KillServer(server))
	f.start(x)
	require.NoError(t, e.StartServer(server))
	moves("a member is killed, and the leader of the ensemble within its grace", killed)

	x = f.planner()
	f.kill(x)
	f.settled("the planner is killed, and does not return")
	f.start(x)
	before = f.settled("it returns after its grace")

	x = other(f.planner())
	f.kill(x)
	f.absent(x)
	time.Sleep(graceTime - time.Second + rand.N(2*time.Second)) // real time: the member returns when its grace ends
	f.start(x)
	f.settled("a member returns as its grace ends")

	x = other(f.planner())
	require.NoError(t, f.running[x].cmd.Process.Signal(syscall.SIGUSR1))
	testbed.Eventually(t, func() bool {
		mine := 0
		for _, id := range f.owners() {
			if id == x {
				mine++
			}
		}
		return mine < graceShards/len(ids)
	}, "a shard is handed over")
	f.end(x, false)
	f.settled("a member is killed while it drains")
	f.start(x)
	f.settled("it joins again")

	for range 6 {
		x := other()
		f.kill(x)
		time.Sleep(rand.N(7 * time.Second)) // real time: how long the process is absent
		f.start(x)
		time.Sleep(rand.N(7 * time.Second)) // real time: how long it runs
	}
	f.settled("members are killed at random")
	for id, p := range f.running {
		_ = p.input.Close()
		assert.NoError(t, <-p.ended)
		delete(f.running, id)
	}
	for _, wrong := range graces(f.calls) {
		t.Error(wrong)
	}
	t.Logf("%d calls of %d shards, %v processes", len(f.calls), graceShards, f.began)
}

// slack is how much shorter a grace may be: the servers count in milliseconds of another clock.
const slack = 50 * time.Millisecond

// graces is the checker: it returns calls for a shard that overlap, and calls for a shard that was
// reserved for another member.
func graces(calls []owned) (wrong []error) {
	calls = slices.SortedFunc(slices.Values(calls), func(a, b owned) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.From, b.From))
	})
	for i, c := range calls[1:] {
		last := calls[i]
		switch {
		case last.Shard != c.Shard:
		case last.To == 0 || last.To > c.From:
			wrong = append(wrong, fmt.Errorf("shard %d has two owners: %+v and %+v", c.Shard, last, c))
		case last.reserved && last.member != c.member && c.From < last.To+graceTime-slack:
			wrong = append(wrong, fmt.Errorf("shard %d was reserved: %+v and %+v", c.Shard, last, c))
		}
	}
	return wrong
}

func TestTheCheckerOfGraces(t *testing.T) {
	s := time.Second
	for name, c := range map[string]struct {
		calls []owned
		fine  bool
	}{
		"a move":                     {[]owned{{From: s, To: 2 * s, member: "a"}, {From: 2 * s, To: 3 * s, member: "b"}}, true},
		"a move after a grace":       {[]owned{{From: s, To: 2 * s, member: "a", reserved: true}, {From: 2*s + graceTime, member: "b"}}, true},
		"a return":                   {[]owned{{From: s, To: 2 * s, member: "a", reserved: true}, {From: 3 * s, member: "a"}}, true},
		"two shards":                 {[]owned{{From: s, member: "a"}, {Shard: 1, From: s, member: "b"}}, true},
		"two owners":                 {[]owned{{From: s, To: 3 * s, member: "a"}, {From: 2 * s, To: 4 * s, member: "b"}}, false},
		"an owner that does not end": {[]owned{{From: s, member: "a"}, {From: 2 * s, To: 4 * s, member: "b"}}, false},
		"a move within a grace":      {[]owned{{From: s, To: 2 * s, member: "a", reserved: true}, {From: 3 * s, member: "b"}}, false},
		"a drained member":           {[]owned{{From: s, To: 9 * s, member: "x"}, {From: 10 * s, member: "b"}}, true},
	} {
		assert.Equal(t, c.fine, len(graces(c.calls)) == 0, name)
	}
}
