package shard

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testlevel"
)

func equalWeights(members int) map[string]int {
	w := make(map[string]int)
	for i := range members {
		w[fmt.Sprintf("m%02d", i)] = 1
	}
	return w
}

// moved counts the shards that have another owner in b than in a.
func moved(a, b []string) (n int) {
	for shard, id := range a {
		if b[shard] != id {
			n++
		}
	}
	return n
}

// requireBalanced requires that the members' shares are exact but for rounding, and that the plan
// is kept.
func requireBalanced(t *testing.T, p []string, w map[string]int) {
	t.Helper()
	owned, sum := make(map[string]int), 0
	for _, id := range p {
		owned[id]++
	}
	require.Subset(t, slices.Collect(maps.Keys(w)), slices.Collect(maps.Keys(owned)))
	for _, weight := range w {
		sum += weight
	}
	for id, weight := range w {
		require.InDelta(t, float64(len(p)*weight)/float64(sum), owned[id], 0.9999, id)
	}
	require.Equal(t, p, rebalanced(p, w))
}

// With equal weights, n shards and m members, n%m members may keep one shard more than n/m.
func TestRebalanced_MovesNoMoreThanNeeded(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		w := equalWeights(1 + random.IntN(8))
		p, owned := make([]string, 1+random.IntN(40)), make(map[string]int)
		for shard := range p {
			p[shard] = fmt.Sprintf("m%02d", random.IntN(10))
			owned[p[shard]]++
		}
		kept, extra := 0, len(p)%len(w)
		for id := range w {
			kept += min(owned[id], len(p)/len(w))
			if owned[id] > len(p)/len(w) && extra > 0 {
				extra--
				kept++
			}
		}
		next := rebalanced(p, w)
		require.Equal(t, len(p)-kept, moved(p, next), "%v among %d", p, len(w))
		requireBalanced(t, next, w)
	}
}

func TestRebalanced_AnyHistory(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		p, w := make([]string, 1+random.IntN(100)), map[string]int{}
		for range 30 {
			if id := fmt.Sprintf("m%d", random.IntN(12)); w[id] > 0 && len(w) > 1 {
				delete(w, id)
			} else {
				w[id] = 1 + random.IntN(5)
			}
			p = rebalanced(p, w)
			requireBalanced(t, p, w)
		}
	}
}

// history is a random world of plans: members of equal weight join, leave, die, drain and return,
// graces end, and shards are refused. It knows nothing of how plans are computed.
type history struct {
	*testing.T
	random *rand.Rand
	p      plan
	g      members          // present
	away   map[string]int64 // when the grace of a member that left is over
	now    int64
	seen   map[string]int // events
}

// step lets the group change by event, and checks the next plan. most is how many shards may move;
// -1: no bound.
func (h *history) step(event string, most int) {
	h.Helper()
	h.seen[event]++
	for id, over := range h.away {
		if _, back := h.g[id]; back || over <= h.now {
			delete(h.away, id)
		}
	}
	next, wake := h.p.next(h.g, h.now)
	again, _ := next.next(h.g, h.now)
	if !reflect.DeepEqual(next, again) {
		require.Equal(h, next, again, "%s: a plan is kept", event)
	}
	moves := 0
	for shard, id := range next.Owners {
		m, here := h.g[id]
		_, away := h.away[id]
		if !(here && m.weight > 0 || away || len(h.takers()) == 0) {
			require.Fail(h, "an owner that is neither present nor absent within its grace", "%s: shard %d belongs to %q", event, shard, id)
		}
		if was := h.p.Owners[shard]; was != id && was != "" {
			if _, away := h.away[was]; away {
				require.Fail(h, "a reserved shard has moved", "%s: shard %d of %q", event, shard, was)
			}
			if moves++; most >= 0 && moves > most {
				require.Fail(h, "too many moves", "%s: more than %d\n%v\n%v", event, most, h.p, next)
			}
		}
	}
	if takers := h.takers(); len(takers) > 0 {
		require.LessOrEqual(h, next.spread(takers), 1+2*len(next.Refused), "%s: %v", event, next)
	}
	require.Equal(h, len(h.away) > 0, wake > 0, event)
	h.p = next
}

// grace returns the grace of a member; 0: none.
func (h *history) grace() time.Duration {
	return max(0, time.Second*time.Duration(h.random.IntN(200)-100))
}

// takers returns the ids of the members that take shards.
func (h *history) takers() (ids []string) {
	for id, m := range h.g {
		if m.weight > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Each row of the table in the package comment, in random worlds.
func TestNext_MovesNoMoreThanPromised(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(testlevel.Pick(300, 300, 1000)) {
		h := &history{T: t, random: rand.New(rand.NewPCG(seed, 7)), p: unowned(1 + int(seed%40)), g: make(members),
			away: make(map[string]int64), now: 1_000_000, seen: seen}
		n := len(h.p.Owners)
		for range 40 {
			id := fmt.Sprintf("m%d", h.random.IntN(7))
			load := h.p.load()
			m, here := h.g[id]
			_, away := h.away[id]
			switch event := h.random.IntN(8); {
			case here && event < 2: // it leaves or dies
				delete(h.g, id)
				if m.grace > 0 {
					h.away[id] = h.now + m.grace.Milliseconds()
					h.step("leaves with a grace", 0)
				} else {
					h.step("leaves", load[id]+len(h.p.Refused))
				}
			case here && event == 2: // it drains, and leaves
				h.g[id] = present{}
				h.step("drains", load[id]+len(h.p.Refused))
				delete(h.g, id)
				h.step("has drained", 0)
			case !here && away && len(h.p.Refused) == 0: // it returns
				h.g[id] = present{1, h.grace()}
				p := h.p
				h.step("returns", -1)
				if !slices.Contains(p.Owners, "") && p.spread(h.takers()) <= 1 {
					require.Equal(h, p.Owners, h.p.Owners, "nothing moves")
					h.seen["returns, and nothing moves"]++
				}
			case !here && !away:
				h.g[id] = present{1, h.grace()}
				all, full := len(h.takers())+len(h.away), true
				for id := range h.away {
					full = full && load[id] >= n/(all-1)
				}
				if full {
					h.step("joins", (n+all-1)/all+len(h.p.Refused))
				} else { // a member that is absent has less than its share
					h.step("joins beside a light one", (n+len(h.takers())-1)/len(h.takers())+len(h.p.Refused))
				}
			case event < 5: // time passes
				h.now += int64(h.random.IntN(60_000))
				gone := 0
				for id, over := range h.away {
					if over <= h.now {
						gone += load[id]
					}
				}
				h.step("time passes", gone+len(h.p.Refused))
			default:
				shard := h.random.IntN(n)
				if owner := h.p.Owners[shard]; h.g[owner].weight > 0 {
					h.p = h.p.refusedBy(owner, shard, true)
					h.step("refuses", 1)
				}
			}
		}
	}
	for _, event := range []string{"leaves", "leaves with a grace", "drains", "returns, and nothing moves", "joins", "time passes", "refuses"} {
		require.Greater(t, seen[event], 30, "%v", seen)
	}
}

// spread returns by how many shards these members differ at most.
func (p plan) spread(ids []string) int {
	load := p.load()
	counts := make([]int, 0, len(ids))
	for _, id := range ids {
		counts = append(counts, load[id])
	}
	return slices.Max(counts) - slices.Min(counts)
}

// A shard that all refuse has been with each of them once, and stays with the last one.
func TestNext_ARefusedShardMovesToEachOnce(t *testing.T) {
	g := members{"a": {weight: 1}, "b": {weight: 1}, "c": {weight: 1}}
	p, _ := unowned(9).next(g, 0)
	start := p.Owners
	owners := []string{p.Owners[4]}
	for range 5 {
		p, _ = p.refusedBy(p.Owners[4], 4, true).next(g, 0)
		if last := owners[len(owners)-1]; p.Owners[4] != last {
			owners = append(owners, p.Owners[4])
		}
		require.LessOrEqual(t, moved(start, p.Owners), 1, "no other shard moves")
	}
	require.Len(t, owners, 3)
	require.Equal(t, []string{"a", "b", "c"}, p.Refused[4].By)
	p, _ = p.forgiven("a").forgiven("b").forgiven("c").next(g, 0)
	require.Nil(t, p.Refused)
	require.LessOrEqual(t, moved(start, p.Owners), 2)
}

// The clock of the servers may step back when another leader is elected.
func TestNext_AGraceOutlastsNoClock(t *testing.T) {
	g := members{"a": {1, time.Minute}, "b": {1, time.Minute}}
	p, _ := unowned(4).next(g, 0)
	delete(g, "a")
	p, wake := p.next(g, 10_000_000)
	require.Equal(t, time.Minute, wake)
	p, wake = p.next(g, 5_000_000)
	require.Equal(t, time.Minute, wake, "at most the grace")
	p, wake = p.next(g, 5_030_000)
	require.Equal(t, 30*time.Second, wake)
	p, wake = p.next(g, 5_060_000)
	require.Zero(t, wake)
	require.Equal(t, []string{"b", "b", "b", "b"}, p.Owners)
	require.NotContains(t, p.Stays, "a")
}

// Plans that no version writes lead to one in which every shard has an owner, or is reserved for at
// most a day, and to no second one.
func TestNext_AForeignPlan(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e", ""}
	for seed := range uint64(testlevel.Pick(5_000, 20_000, 400_000)) {
		random := rand.New(rand.NewPCG(seed, 0))
		id := func() string { return ids[random.IntN(len(ids))] }
		number := func() int64 {
			return []int64{0, 1, -1, 1000, 60_000, math.MaxInt64, math.MinInt64, random.Int64()}[random.IntN(8)]
		}
		p, g := unowned(1+random.IntN(9)), members{}
		for shard := range p.Owners {
			p.Owners[shard] = id()
		}
		p.Stays, p.Refused = make(map[string]stay), make(map[int]refusal)
		for range random.IntN(5) {
			p.Stays[id()] = stay{number(), number()}
			p.Refused[random.IntN(len(p.Owners)+3)-1] = refusal{id(), []string{id(), id()}}
			g[ids[random.IntN(len(ids)-1)]] = present{random.IntN(3), time.Duration(random.IntN(2)) * time.Minute}
		}
		takes := false
		for _, m := range g {
			takes = takes || m.weight > 0
		}
		const now = 1_000_000_000_000
		next, wake := p.next(g, now)
		require.LessOrEqual(t, wake, maxGrace, "seed %d", seed)
		require.GreaterOrEqual(t, wake, time.Duration(0), "seed %d", seed)
		for shard, owner := range next.Owners {
			require.True(t, g[owner].weight > 0 || owner != "" && next.absent(owner) || owner == "" && !takes, "seed %d: shard %d of %+v", seed, shard, next)
		}
		again, _ := next.next(g, now)
		require.Equal(t, next, again, "seed %d", seed)
		later, _ := next.next(g, now+maxGrace.Milliseconds())
		for shard, owner := range later.Owners {
			require.True(t, g[owner].weight > 0 || owner == "" && !takes, "seed %d: shard %d of %+v", seed, shard, later)
		}
	}
}
