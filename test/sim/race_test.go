//go:build race

package sim

import "runtime"

// The race detector crashes if two goroutines of a bubble look at the same time at timers that have
// ended already: https://go.dev/issue/78156.
//
// A world takes five times as long, so there are fewer, unless a flag says how many.
func init() {
	runtime.GOMAXPROCS(1)
	raced = true
	*seeds, delayWorlds = 10, min(delayWorlds, 10)
}
