package shard

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func equalWeights(members int) map[string]int {
	w := make(map[string]int)
	for i := range members {
		w[fmt.Sprintf("m%02d", i)] = 1
	}
	return w
}

// moved counts the shards that have another owner in b than in a.
func moved(a, b plan) (n int) {
	for shard, id := range a {
		if b[shard] != id {
			n++
		}
	}
	return n
}

// requireBalanced requires that the members' shares are exact but for rounding, and that the plan
// is kept.
func requireBalanced(t *testing.T, p plan, w map[string]int) {
	t.Helper()
	owned, sum := make(map[string]int), 0
	for _, id := range p {
		require.Contains(t, w, id)
		owned[id]++
	}
	for _, weight := range w {
		sum += weight
	}
	for id, weight := range w {
		require.InDelta(t, float64(len(p)*weight)/float64(sum), owned[id], 0.9999, id)
	}
	require.Equal(t, p, p.rebalanced(w))
}

func TestRebalanced_OneMemberMoreOrFewer(t *testing.T) {
	for _, n := range []int{1, 16, 64, 1000} {
		for m := 1; m <= 20; m++ {
			w := equalWeights(m)
			p := make(plan, n).rebalanced(w)
			requireBalanced(t, p, w)
			bound := (n + m - 1) / m
			for gone := range w {
				rest := equalWeights(m)
				delete(rest, gone)
				if len(rest) == 0 {
					continue
				}
				fewer := p.rebalanced(rest)
				requireBalanced(t, fewer, rest)
				require.LessOrEqual(t, moved(p, fewer), bound, "%d shards, one of %d members left", n, m)
			}
			w["new"] = 1
			more := p.rebalanced(w)
			requireBalanced(t, more, w)
			require.LessOrEqual(t, moved(p, more), bound, "%d shards, %d members, one joined", n, m)
		}
	}
}

// With equal weights, n shards and m members, n%m members may keep one shard more than n/m.
func TestRebalanced_MovesNoMoreThanNeeded(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		w := equalWeights(1 + random.IntN(8))
		p, owned := make(plan, 1+random.IntN(40)), make(map[string]int)
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
		require.Equal(t, len(p)-kept, moved(p, p.rebalanced(w)), "%v among %d", p, len(w))
	}
}

func TestRebalanced_AnyHistory(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		p, w := make(plan, 1+random.IntN(100)), map[string]int{}
		for range 30 {
			if id := fmt.Sprintf("m%d", random.IntN(12)); w[id] > 0 && len(w) > 1 {
				delete(w, id)
			} else {
				w[id] = 1 + random.IntN(5)
			}
			p = p.rebalanced(w)
			requireBalanced(t, p, w)
		}
	}
}

func TestRebalanced_NoMembers(t *testing.T) {
	p := make(plan, 8).rebalanced(equalWeights(2))
	require.Equal(t, make(plan, 8), p.rebalanced(nil))
}
