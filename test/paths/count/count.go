// Package count counts the mutexes that instrumented packages lock: see package paths.
package count

import (
	"maps"
	"sync"
)

var counts struct {
	sync.Mutex
	places map[string]int // by "function: mutex"
}

// Lock counts the lock of a mutex. Instrumented packages call it.
func Lock(place string) {
	counts.Lock()
	defer counts.Unlock()
	if counts.places == nil {
		counts.places = make(map[string]int)
	}
	counts.places[place]++
}

// Take returns how often each place was counted since the last call.
func Take() map[string]int {
	counts.Lock()
	defer counts.Unlock()
	places := maps.Clone(counts.places)
	clear(counts.places)
	return places
}
