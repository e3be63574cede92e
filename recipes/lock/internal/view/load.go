package view

import "time"

// A view costs a watch on the server, and an event for every node that anybody creates or deletes
// there. It saves a list and a watch for every lease that we acquire.
const (
	// maxEvents is how many events about nodes of others a view may cost for each of our acquires,
	// and slack how many more. It is above MaxOthers, twice over since each node is made and
	// deleted, so that a view does not begin and end in turns.
	maxEvents = 32
	slack     = 512
)

// MaxOthers is the largest number of other clients' nodes in a queue for which a view starts.
const MaxOthers = 12

// load counts what a view costs and how often it is used. It is guarded by View.mu.
type load struct {
	used   time.Time // when a lock last asked for the view
	cycles int       // how often that was, and our nodes before: each time at most one is created
	events int       // about nodes of others that have been deleted
}

// heavy reports whether the view costs more than lists do.
func (l *load) heavy() bool { return l.events > maxEvents*l.cycles+slack }
