package wire

import "sync"

// Queue passes items from one goroutine to another. It is unbounded, so Push never blocks.
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

// Push adds an item. It does nothing after End.
func (q Queue) Push(item []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.items = append(q.items, item)
		signal(q.wake)
	}
}

// Len returns the number of queued items.
func (q Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// End closes the queue. Next still returns the queued items.
func (q Queue) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	signal(q.wake)
}

// Next returns the next item, and waits for one if the queue is empty. It reports false if the
// queue is empty and End was called or stop is closed.
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
