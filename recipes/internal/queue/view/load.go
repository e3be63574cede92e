package view

import "time"

// A view costs a watch on the server, and an event for every node that anybody creates or deletes there. It saves a list and
// a watch for every lease that we acquire.
const (
	// maxEvents is how many events about nodes of others a view may cost for each of our acquires, and slack how
	// many more. It is above MaxOthers, twice over since each node is made and deleted, so that a view does
	// not begin and end in turns.
	maxEvents = 32
	slack     = 512
)

// MaxOthers is how many nodes of others a queue may have for a view of it to begin.
const MaxOthers = 12

// load counts what a view costs and how often it is used. It is guarded by View.mu.
type load struct {
	used     time.Time // when a lock last asked for the view
	cycles   int       // how often that was
	events   int       // about nodes of others; for nodes of ours they are taken off when they are admitted
	expected int       // nodes of ours that are not admitted yet
}

// use notes that a lock is about to acquire with the view.
func (l *load) use(now time.Time) {
	l.used = now
	l.cycles++
	if l.cycles == 64 { // what was long ago does not count
		l.cycles /= 2
		l.events /= 2
	}
}

// heavy reports whether the view costs more than lists do.
func (l *load) heavy() bool { return l.events-2*l.expected > maxEvents*l.cycles+slack }

// Use notes that a lock is about to acquire with the view.
func (v *View) Use(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.load.use(now)
}

// Expect notes that a node of ours is about to be created. done is to be called when it was admitted, or when there is
// nothing to admit.
func (v *View) Expect() (done func(admitted bool)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.load.expected++
	return func(admitted bool) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.load.expected--
		if admitted {
			v.load.events -= 2
		}
	}
}
