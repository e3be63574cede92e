package sim

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

// The recipe "delay" is a mutex with a lock delay. It is drawn for no seed: the flag -sim.recipe
// asks for it, and TestDelayWorlds. A holder that has lost the lock works on for up to its delay.

const markPrefix = "held-mark."

// deaths checks a mutex with a lock delay: the work of a dead holder does not overlap a later hold,
// and no mark stays of a holder that has released.
type deaths struct {
	*world
	least time.Duration // the delay of some contenders; the others have twice as much

	mu     sync.Mutex // guards what follows
	works  []*work
	nodes  map[string]string // what is known of a node: see the states
	owners map[string]int64  // the session of each node that was seen
	// limited are the sessions of clients with a limit for holds. Its time may be over while the
	// observer is notified of a hold, and that is a death.
	limited map[int64]bool
	orphans map[string]time.Time // when the mark of a node that does not exist was first seen
}

// States of a node, by its name.
const (
	entered  = "entered"  // a holder works
	released = "released" // Release has returned nil
	lost     = "lost"     // Release has returned an error, or has not returned
)

// work is what a holder does until it calls Release, or for its delay after the loss.
type work struct {
	h     *held
	delay time.Duration
	lost  time.Time // when its context has ended; guarded by deaths.mu
}

func (w *world) newDeaths() *deaths {
	random := rand.New(rand.NewPCG(w.Seed, 6))
	return &deaths{
		world: w, least: pick(random, 3*time.Second, 15*time.Second, time.Minute),
		nodes: make(map[string]string), owners: make(map[string]int64), limited: make(map[int64]bool),
		orphans: make(map[string]time.Time),
	}
}

func makeDelayed(c *contender) (acquirer, error) {
	d := c.deaths
	delay := d.least * time.Duration(1+c.number%2)
	m, err := mutex.New(c.client, lockPath, append(c.options(), lock.WithLockDelay(delay))...)
	return func(ctx context.Context, wait bool) ([]*held, error) {
		h, err := either(wait, m.Acquire, m.TryAcquire)(ctx)
		if err != nil {
			return nil, err
		}
		one := c.of(h, c.owners.Add(1), false, h.Path())
		own := &work{h: one, delay: delay}
		d.enter(own)
		context.AfterFunc(one.ctx, func() { d.loses(own) })
		one.linger = func() {
			if one.ctx.Err() != nil && !c.calm.Load() {
				c.sleep(upTo(c.random, delay), c.over)
			}
			d.ends(own)
		}
		one.released = func(err error) { d.releases(own, err) }
		return []*held{one}, nil
	}, err
}

// died returns the earliest instant at which a holder may have died, or the zero Time. d.mu is
// locked.
func (d *deaths) died(w *work) time.Time {
	d.monitor.mu.Lock()
	defer d.monitor.mu.Unlock()
	at := w.lost
	for _, forced := range []time.Time{d.monitor.forced[w.h.session].first, d.monitor.deleted[w.h.node].first} {
		if !forced.IsZero() && (at.IsZero() || forced.Before(at)) {
			at = forced
		}
	}
	return at
}

// enter requires that the delays of all holders that still work have passed.
func (d *deaths) enter(own *work) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[nameOf(own.h.node)] = entered
	d.works = append(slices.DeleteFunc(d.works, func(other *work) bool {
		at := d.died(other)
		if at.IsZero() {
			return false // two holders are for the monitor to find
		}
		d.monitor.count("holds after a death")
		if after := time.Since(at); after < other.delay {
			d.monitor.fail("delay missed", "%s with %s %v after the death of %s with %s, whose work may last for %v",
				own.h.who, own.h.node, after, other.h.who, other.h.node, other.delay)
		}
		return true // its delay is over
	}), own)
}

// loses notes the end of a hold's context.
func (d *deaths) loses(own *work) {
	d.mu.Lock()
	defer d.mu.Unlock()
	own.lost = time.Now()
}

// ends is called just before Release. If the holder is known to be dead, its delay lasts on.
func (d *deaths) ends(own *work) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := nameOf(own.h.node)
	d.nodes[name] = lost
	cause := context.Cause(own.h.ctx)
	dead := errors.Is(cause, lock.ErrNodeDeleted) || errors.Is(cause, lock.ErrMaxHold)
	d.works = slices.DeleteFunc(d.works, func(w *work) bool { return w == own && !dead })
}

// releases notes what Release has returned.
func (d *deaths) releases(own *work, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.nodes[nameOf(own.h.node)] = released
	}
}

// tooLong is how long a mark may stay of a node that was never held, while the session lives: the
// client may be out of reach of the servers.
const tooLong = time.Minute

// watch looks at the mark from time to time.
func (d *deaths) watch() {
	for !d.calm.Load() {
		time.Sleep(500 * time.Millisecond) // virtual time
		d.look()
	}
}

// look requires that no mark stays of a node that was released, or given up.
func (d *deaths) look() {
	leader, err := d.cluster.Leader()
	if err != nil {
		return
	}
	d.mu.Lock()
	clients := slices.Clone(d.clients)
	d.mu.Unlock()
	var limited []int64 // found without the lock: session asks the client
	for _, u := range clients {
		if u.MaxHold > 0 {
			limited = append(limited, u.session())
		}
	}
	d.mu.Lock()
	for _, session := range limited {
		d.limited[session] = true
	}
	before := maps.Clone(d.nodes)
	d.mu.Unlock()
	nodes := leader.Dump()
	d.mu.Lock()
	defer d.mu.Unlock()
	marks, exists := make(map[string]bool), make(map[string]bool) // by the name of the node
	for _, n := range nodes {
		if !strings.HasPrefix(n.Path, lockPath+"/") {
			continue
		}
		name := nameOf(n.Path)
		if strings.HasPrefix(name, markPrefix) {
			_, node, _ := strings.Cut(string(n.Data), " ")
			marks[node] = true
		} else if n.Owner != 0 {
			d.owners[name], exists[name] = n.Owner, true
		}
	}
	maps.DeleteFunc(marks, func(node string, _ bool) bool { return exists[node] })
	maps.DeleteFunc(d.orphans, func(node string, _ time.Time) bool { return !marks[node] })
	for node := range marks {
		if d.orphans[node].IsZero() {
			d.orphans[node] = time.Now()
			d.monitor.count("marks of dead holders")
		}
		d.lookAtOrphan(leader, node, before[node])
	}
}

// lookAtOrphan requires that the holder of a mark whose node does not exist is dead. state is the
// node's, before the look. d.mu is locked.
func (d *deaths) lookAtOrphan(leader *zktest.Server, mark, state string) {
	// If a reply to Release was lost, Release cannot know that the node was deleted by hand.
	d.monitor.mu.Lock()
	byHand := !d.monitor.deleted[lockPath+"/"+mark].last.IsZero() || !d.monitor.forced[d.owners[mark]].last.IsZero()
	d.monitor.mu.Unlock()
	if state == released && !byHand {
		d.monitor.fail("delay without a death", "the mark of %s, which was released", mark)
	}
	if d.nodes[mark] == "" && !byHand && time.Since(d.orphans[mark]) > tooLong {
		owner := d.owners[mark]
		lives := slices.ContainsFunc(leader.Sessions(), func(s zktest.Session) bool { return s.ID == owner })
		if lives && !d.limited[owner] {
			d.monitor.fail("delay without a death", "the mark of %s, which was given up", mark)
		}
	}
}

func nameOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

var delayWorlds = testlevel.Pick[uint64](20, 100, 1000)

// TestDelayWorlds runs worlds with a mutex that has a lock delay.
func TestDelayWorlds(t *testing.T) {
	t.Parallel()
	counts := make(map[string]int)
	for seed := uint64(1); seed <= delayWorlds; seed++ {
		r := simulate(t, draw(seed, "delay"), false)
		require.Emptyf(t, r.wrong, "go test ./test/sim -run TestWorlds -v -sim.recipe delay -sim.seed %d", seed)
		for kind, n := range r.counts {
			counts[kind] += n
		}
	}
	require.Positive(t, counts["marks of dead holders"])
	t.Logf("%d worlds, %d holds, %d marks of dead holders, %d holds after a death",
		delayWorlds, counts["holds"], counts["marks of dead holders"], counts["holds after a death"])
}
