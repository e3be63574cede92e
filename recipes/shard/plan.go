package shard

import (
	"cmp"
	"maps"
	"slices"
)

// plan is the id of the owner of each shard; empty for a shard without one. As JSON it is the data
// of <path>/plan.
type plan []string

// rebalanced returns the plan for members with these weights. It gives each its share, and moves no
// shard without need.
func (p plan) rebalanced(weights map[string]int) plan {
	next := make(plan, len(p))
	if len(weights) == 0 {
		return next
	}
	shares := p.shares(weights)
	for shard, id := range p {
		if shares[id] > 0 {
			shares[id]--
			next[shard] = id
		}
	}
	ids := slices.Sorted(maps.Keys(weights))
	for shard := range next {
		if next[shard] != "" {
			continue
		}
		for shares[ids[0]] == 0 {
			ids = ids[1:]
		}
		shares[ids[0]]--
		next[shard] = ids[0]
	}
	return next
}

// shares returns how many shards each member gets: n·weight/sum, rounded down or up. It rounds up
// for members that have more shards already, so that these stay, and then for the largest
// remainders.
func (p plan) shares(weights map[string]int) map[string]int {
	sum, left, owned := 0, len(p), make(map[string]int)
	for _, weight := range weights {
		sum += weight
	}
	for _, id := range p {
		owned[id]++
	}
	shares := make(map[string]int, len(weights))
	for id, weight := range weights {
		shares[id] = len(p) * weight / sum
		left -= shares[id]
	}
	rest := func(id string) int { return len(p) * weights[id] % sum }
	more := func(id string) int { return min(max(owned[id]-shares[id], 0), 1) }
	ids := slices.SortedFunc(maps.Keys(weights), func(a, b string) int {
		return cmp.Or(
			cmp.Compare(min(rest(b), 1), min(rest(a), 1)), // an exact share is not rounded
			cmp.Compare(more(b), more(a)),
			cmp.Compare(rest(b), rest(a)),
			cmp.Compare(a, b))
	})
	for _, id := range ids[:left] {
		shares[id]++
	}
	return shares
}
