package engine

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/gocurator/curator/internal/wait"
)

// life is the life of a client, from New to Close. It owns all goroutines.
type life struct {
	ctx   context.Context // ends with Close, cause ErrClosed
	stop  context.CancelCauseFunc
	wg    sync.WaitGroup // every goroutine of the client
	ended chan struct{}  // closed when all goroutines have returned

	mu sync.Mutex // held while ctx is ended, and while a goroutine begins
}

func (l *life) begin() {
	l.ctx, l.stop = context.WithCancelCause(context.Background())
	l.ended = make(chan struct{})
}

// end ends ctx, and reports whether this was the first call. No goroutine begins after it.
func (l *life) end() (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first = l.ctx.Err() == nil
	l.stop(ErrClosed)
	return first
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

// noLimit is for waits without a time limit.
const noLimit time.Duration = math.MaxInt64

// within returns a context that ends with ctx and with the life, and when limit has passed.
func (l *life) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(l.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// sleep waits for d. It returns ctx's error when ctx is done, and [ErrClosed] when the life ends.
func (l *life) sleep(ctx context.Context, d time.Duration) error {
	within, cancel := l.within(ctx, d)
	defer cancel()
	<-within.Done()
	switch {
	case ctx.Err() != nil:
		return wait.Err(ctx)
	case l.ctx.Err() != nil:
		return ErrClosed
	}
	return nil
}
