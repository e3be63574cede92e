package cluster

import (
	"container/heap"
	"time"
)

// Agenda runs functions at scheduled times, one at a time and with the cluster's lock held.
// Functions with the same time run in the order in which they were added.
type Agenda struct {
	items items
	count int
	armed time.Time     // when Run wakes up; zero: it does not
	wake  chan struct{} // capacity 1
}

type item struct {
	at     time.Time
	number int
	run    func()
}

// NewAgenda returns an empty agenda.
func NewAgenda() *Agenda { return &Agenda{wake: make(chan struct{}, 1)} }

// Add schedules f to run at the given time.
func (a *Agenda) Add(at time.Time, f func()) {
	a.count++
	heap.Push(&a.items, item{at, a.count, f})
}

// Settle runs the functions that are due, and wakes Run if the next time is earlier than Run
// expects.
func (a *Agenda) Settle() {
	for len(a.items) > 0 && !time.Now().Before(a.items[0].at) {
		heap.Pop(&a.items).(item).run()
	}
	if len(a.items) > 0 && (a.armed.IsZero() || a.items[0].at.Before(a.armed)) {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
}

// Run calls Settle at each scheduled time, until done is closed. The lock must not be held.
func (a *Agenda) Run(m *Monitor, done <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		m.Lock()
		a.Settle()
		a.armed = time.Time{}
		if len(a.items) > 0 {
			a.armed = a.items[0].at
			timer.Reset(time.Until(a.armed))
		}
		m.Release()
		select {
		case <-timer.C:
		case <-a.wake:
		case <-done:
			return
		}
	}
}

// items is a heap, by time and then by order of addition.
type items []item

func (h items) Len() int { return len(h) }
func (h items) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].number < h[j].number
	}
	return h[i].at.Before(h[j].at)
}
func (h items) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *items) Push(x any)   { *h = append(*h, x.(item)) }
func (h *items) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = item{}
	*h = (*h)[:last]
	return x
}
