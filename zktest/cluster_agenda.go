package zktest

import (
	"container/heap"
	"sync"
	"time"
)

// agenda runs functions at their times, one at a time and with the cluster's lock held. Those of one
// time run in the order in which they were added. Guarded by shared.mu.
type agenda struct {
	items items
	count int
	armed time.Time     // when run wakes up; zero: it does not
	wake  chan struct{} // capacity 1
}

type item struct {
	at     time.Time
	number int
	run    func()
}

func newAgenda() *agenda { return &agenda{wake: make(chan struct{}, 1)} }

// add has f run at a time.
func (a *agenda) add(at time.Time, f func()) {
	a.count++
	heap.Push(&a.items, item{at, a.count, f})
}

// settle runs what is due. The lock is held.
func (a *agenda) settle() {
	for len(a.items) > 0 && !time.Now().Before(a.items[0].at) {
		heap.Pop(&a.items).(item).run()
	}
	if len(a.items) > 0 && (a.armed.IsZero() || a.items[0].at.Before(a.armed)) {
		signal(a.wake)
	}
}

// run settles what comes due, until done is closed. unlock settles before it unlocks.
func (a *agenda) run(mu *sync.Mutex, unlock func(), done <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		mu.Lock()
		a.settle()
		a.armed = time.Time{}
		if len(a.items) > 0 {
			a.armed = a.items[0].at
			timer.Reset(time.Until(a.armed))
		}
		unlock()
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

// after has f run once d has passed. c.mu is held, as in all that follows.
func (c *Cluster) after(d time.Duration, f func()) { c.agenda.add(time.Now().Add(d), f) }

// every has f run each time d has passed since began.
func (c *Cluster) every(d time.Duration, f func()) {
	at := c.began
	var again func()
	again = func() {
		at = at.Add(d)
		c.agenda.add(at, func() {
			f()
			again()
		})
	}
	again()
}

// upTo is a random time from 0 to d.
func (c *Cluster) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(c.random.Int64N(int64(d) + 1))
}
