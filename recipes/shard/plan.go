package shard

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// plan says which member owns each shard. As JSON it is the data of <path>/plan.
type plan struct {
	// Owners has the id of the owner of each shard; empty for a shard without one. Its length is
	// the number of shards. 0: there is no plan.
	Owners []string `json:"owners"`

	// Stays has the members with a grace, by id.
	Stays map[string]stay `json:"stays,omitempty"`

	// Refused has the shards whose function fails in some members.
	Refused map[int]refusal `json:"refused,omitempty"`
}

// stay is a member with a grace.
//
//	Absent       member                 its shards
//	0            present                may move
//	a time       has left or died       are reserved for it until Absent + Grace
type stay struct {
	Grace  int64 `json:"grace"`            // in milliseconds
	Absent int64 `json:"absent,omitempty"` // by the servers' clock, in milliseconds since 1970
}

// refusal is a shard whose function has failed too often in some members. For the balance it counts
// for Home, so that no other shard moves when it does.
type refusal struct {
	Home string   `json:"home"`
	By   []string `json:"by"` // the ids of these members, sorted
}

// present is a member that is in the group.
type present struct {
	weight int // 0: it is being drained
	grace  time.Duration
}

// unowned returns the plan of shards that have no owner.
func unowned(shards int) plan { return plan{Owners: make([]string, shards)} }

// next returns the plan that follows p when the group is g at now, by the servers' clock in
// milliseconds, and when the next grace is over; 0: there is none.
//
//  1. A member that is missing is absent for its grace. Its shards stay with it.
//  2. The others are divided among the members that are present. A refused shard counts for its
//     home.
//  3. A refused shard moves if its owner refuses it, and another member does not.
func (p plan) next(g members, now int64) (next plan, wake time.Duration) {
	next = unowned(len(p.Owners))
	weights := make(map[string]int)
	keep := func(id string, s stay) {
		if next.Stays == nil {
			next.Stays = make(map[string]stay)
		}
		next.Stays[id] = s
	}
	for id, m := range g {
		if m.weight > 0 {
			weights[id] = m.weight
		}
		if m.weight > 0 && m.grace > 0 {
			keep(id, stay{Grace: m.grace.Milliseconds()})
		}
	}
	absent := make(map[string]bool)
	for id, s := range p.Stays {
		if _, here := g[id]; here || id == "" {
			continue
		}
		s.Grace = min(s.Grace, maxGrace.Milliseconds())
		s.Absent = min(cmp.Or(s.Absent, now), now) // the clock of another leader may be behind
		if left := time.Duration(s.Absent+s.Grace-now) * time.Millisecond; left > 0 {
			keep(id, s)
			absent[id] = true
			wake = min(cmp.Or(wake, left), left)
		}
	}

	for shard, r := range p.Refused {
		r.By = slices.DeleteFunc(slices.Clone(r.By), func(id string) bool { return weights[id] == 0 && !absent[id] })
		if len(r.By) == 0 || shard < 0 || shard >= len(p.Owners) {
			continue
		}
		if next.Refused == nil {
			next.Refused = make(map[int]refusal)
		}
		next.Refused[shard] = r
	}

	base := make([]string, len(p.Owners)) // where shards count for the balance
	var pool []int                        // the shards to divide
	for shard, owner := range p.Owners {
		base[shard] = owner
		if r, refused := next.Refused[shard]; refused {
			base[shard] = r.Home
		}
		if !absent[base[shard]] {
			pool = append(pool, shard)
		}
	}
	divided := make([]string, len(pool))
	for i, shard := range pool {
		divided[i] = base[shard]
	}
	for i, id := range rebalanced(divided, weights) {
		base[pool[i]] = id
	}

	copy(next.Owners, base)
	for shard, r := range next.Refused {
		r.Home = base[shard]
		next.Refused[shard] = r
		if owner := p.Owners[shard]; weights[owner] > 0 || absent[owner] {
			next.Owners[shard] = owner
		}
	}
	for _, shard := range slices.Sorted(maps.Keys(next.Refused)) {
		by, owner := next.Refused[shard].By, next.Owners[shard]
		if absent[owner] || !slices.Contains(by, owner) {
			continue
		}
		load := next.load()
		others := slices.DeleteFunc(slices.Sorted(maps.Keys(weights)), func(id string) bool { return slices.Contains(by, id) })
		if len(others) > 0 {
			next.Owners[shard] = slices.MinFunc(others, func(a, b string) int {
				return cmp.Or(cmp.Compare(load[a]*weights[b], load[b]*weights[a]), cmp.Compare(a, b))
			})
		}
	}
	return next, wake
}

// load returns how many shards each member owns.
func (p plan) load() map[string]int {
	load := make(map[string]int)
	for _, id := range p.Owners {
		load[id]++
	}
	return load
}

// absent reports whether the shards of a member are reserved for its return.
func (p plan) absent(id string) bool { return p.Stays[id].Absent != 0 }

// refusedBy returns the plan in which a member refuses a shard, or in which it does not.
func (p plan) refusedBy(id string, shard int, refuses bool) plan {
	r, ok := p.Refused[shard]
	if slices.Contains(r.By, id) == refuses {
		return p
	}
	if !ok {
		r.Home = p.Owners[shard]
	}
	r.By = slices.DeleteFunc(slices.Clone(r.By), func(other string) bool { return other == id })
	if refuses {
		r.By = append(r.By, id)
		slices.Sort(r.By)
	}
	if p.Refused = maps.Clone(p.Refused); p.Refused == nil {
		p.Refused = make(map[int]refusal)
	}
	if p.Refused[shard] = r; len(r.By) == 0 {
		delete(p.Refused, shard)
	}
	return p
}

// forgiven returns the plan in which a member that begins anew refuses no shard.
func (p plan) forgiven(id string) plan {
	for shard := range p.Refused {
		p = p.refusedBy(id, shard, false)
	}
	return p
}

// rebalanced returns the owners of shards for members with these weights. It gives each its share,
// and moves no shard without need.
func rebalanced(owners []string, weights map[string]int) []string {
	next := make([]string, len(owners))
	if len(weights) == 0 {
		return next
	}
	shares := shares(owners, weights)
	for shard, id := range owners {
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
func shares(owners []string, weights map[string]int) map[string]int {
	sum, left, owned := 0, len(owners), make(map[string]int)
	for _, weight := range weights {
		sum += weight
	}
	for _, id := range owners {
		owned[id]++
	}
	shares := make(map[string]int, len(weights))
	for id, weight := range weights {
		shares[id] = len(owners) * weight / sum
		left -= shares[id]
	}
	rest := func(id string) int { return len(owners) * weights[id] % sum }
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
