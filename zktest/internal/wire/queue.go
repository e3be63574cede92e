package wire

import "sync"

// Queue holds items between two goroutines. It has no limit, so that Push never blocks.
type Queue struct {
	*queueState
	wake chan struct{} // capacity 1
}

type queueState struct {
	mu    sync.Mutex // guards what follows
	items [][]byte
	ended bool
}

// NewQueue returns an empty queue.
func NewQueue() Queue { return Queue{&queueState{}, make(chan struct{}, 1)} }

// Push adds an item, unless the queue has ended.
func (q Queue) Push(item []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.items = append(q.items, item)
		signal(q.wake)
	}
}

// Len returns the number of items that wait.
func (q Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// End ends the queue after the items in it.
func (q Queue) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	signal(q.wake)
}

// Next waits for an item. It reports false at the queue's end, and when stop is closed while
// there is none.
func (q Queue) Next(stop <-chan struct{}) ([]byte, bool) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			item := q.items[0]
			q.items = q.items[1:]
			q.mu.Unlock()
			return item, true
		}
		ended := q.ended
		q.mu.Unlock()
		if ended {
			return nil, false
		}
		select {
		case <-q.wake:
		case <-stop:
			return nil, false
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
