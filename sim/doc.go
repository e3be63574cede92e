// Package sim tries the recipes in worlds of their own: a [zktest.Cluster] in memory, clients, faults and time, all in one
// testing/synctest bubble, and all random choices drawn from one seed. An hour there takes seconds.
//
//	make sim SEEDS=100000     # many worlds; it prints the table of docs/SIMULATION.md
//	make sim SEED=7           # one world, with the history of what happened in it
//	make sim-coverage         # which statements do worlds reach?
//	make mutation-worlds      # bugs put back one by one: does a world fail?
//
// The seed decides who takes part and which faults come when. It does not decide in which order the goroutines of one
// instant run: a seed that fails is tried again, several times, and its faults are dropped one by one as long as it
// still fails.
//
// [zktest.Cluster]: https://pkg.go.dev/github.com/gocurator/curator/zktest#Cluster
package sim
