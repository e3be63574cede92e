package engine

import (
	"context"
	"sync"
)

// life is that of a client, from New to Close. It owns all goroutines.
type life struct {
	ctx  context.Context // ends with Close, cause ErrClosed
	stop context.CancelCauseFunc
	wg   sync.WaitGroup // every goroutine of the client
	over chan struct{}  // closed when Close has done its work

	mu      sync.Mutex // guards closing
	closing bool
}

func (l *life) begin() {
	l.over = make(chan struct{})
	l.ctx, l.stop = context.WithCancelCause(context.Background())
}

// end reports whether this is the first call, which has to end everything. Any other waits until that is done.
func (l *life) end() (first bool) {
	l.mu.Lock()
	first = !l.closing
	l.closing = true
	l.mu.Unlock()
	if !first {
		<-l.over
		return false
	}
	l.stop(ErrClosed)
	return true
}

// background runs f on a goroutine that Close waits for; f must end with the life.
// It reports whether it could.
func (l *life) background(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return false
	}
	l.wg.Go(f)
	return true
}
