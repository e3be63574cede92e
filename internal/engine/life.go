package engine

import (
	"context"
	"sync"
)

// life is that of a client, from New to Close. It owns all goroutines.
type life struct {
	ctx   context.Context // ends with Close, cause ErrClosed
	stop  context.CancelCauseFunc
	wg    sync.WaitGroup // every goroutine of the client
	close sync.Once

	mu sync.Mutex // held while ctx is ended, and while a goroutine begins
}

func (l *life) begin() { l.ctx, l.stop = context.WithCancelCause(context.Background()) }

// end ends ctx. No goroutine begins after it.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop(ErrClosed)
}

// background runs f on a goroutine that Close waits for; f must end with the life.
// It reports whether it could.
func (l *life) background(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.wg.Go(f)
	return true
}
