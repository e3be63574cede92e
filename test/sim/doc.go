// Package sim tries the recipes in simulated worlds: a [zktest.Cluster] in memory, clients, faults
// and time, all in one testing/synctest bubble, with all random choices drawn from one seed. An
// hour there takes seconds.
//
//	make sim SEEDS=100000     # many worlds; it prints the table of test/sim/README.md
//	make sim SEED=7           # one world, with its history
//	make sim-coverage         # which statements do worlds reach?
//	make mutation-worlds      # bugs put back one by one: does a world fail?
//
// The seed decides the participants, the faults and their times. It does not decide the order in
// which the goroutines of one instant run: a failing seed is tried again, several times, and its
// faults are dropped one by one as long as it still fails.
//
// [zktest.Cluster]: https://pkg.go.dev/github.com/gocurator/curator/zktest#Cluster
package sim
