package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gocurator/curator/internal/ctxerr"
	"github.com/gocurator/curator/recipes/lock"
)

// Run leads again and again, until ctx is done: it campaigns, calls f, resigns, and campaigns anew at the
// end of the queue. f's context ends when the leadership may no longer be ours, as well as with
// ctx; term is what f leads with. f is never called twice at a time, and f decides how long it
// leads by when it returns.
//
// The node is deleted only after f has returned, so nobody else leads while f still works:
// not when ctx is done, not after [Term.Resign], not when the connection is suspended. Only the end
// of the session deletes the node earlier. If f has not returned ten seconds after its context
// ended, the client's logger is told, and told again when f returns.
//
// Run returns
//   - when ctx is done: the error is that of ctx, joined with f's if that says something else;
//   - when f returns an error while it leads: that error. An error that f returns after its term
//     has ended is logged, unless it only says that the context is done, and Run goes on;
//   - when Campaign fails, or Resign for another reason than a loss: that error;
//   - at once with [lock.ErrBadArgument] if f is nil.
//
// If f panics, the node is deleted and the panic goes on.
func (e *Election) Run(ctx context.Context, f func(ctx context.Context, term *Term) error) error {
	for {
		o, err := e.lead(ctx, f)
		if err != nil {
			return fmt.Errorf("run: %w", err)
		}
		switch {
		case ctx.Err() != nil:
			return errors.Join(fmt.Errorf("run %s: %w", e.path, ctxerr.Of(ctx)), o.work, o.resign)
		case o.lost != nil && o.work != nil:
			e.client.Logger().Warn("function failed after its term", "path", e.path, "term", o.lost, "reason", o.work)
		case o.work != nil:
			return errors.Join(o.work, o.resign)
		}
		if o.resign != nil && !transient(o.resign) {
			return fmt.Errorf("run: %w", o.resign)
		}
	}
}

// Lead is [Election.Run] for one term: it campaigns, calls f once and resigns. The error is Campaign's,
// or f's and Resign's joined; if the term was lost while f worked, the loss is found in it.
func (e *Election) Lead(ctx context.Context, f func(ctx context.Context, term *Term) error) error {
	o, err := e.lead(ctx, f)
	if err != nil {
		return err
	}
	return errors.Join(o.failed, o.resign)
}

// outcome is how a term with a function went.
type outcome struct {
	failed error // what f returned
	work   error // the same, unless it only says that its context is done
	lost   error // why the term ended before f returned; nil if it did not
	resign error // what Resign said: also the loss, if there was one
}

// lead leads once with f. The error is that of the campaign.
func (e *Election) lead(ctx context.Context, f func(context.Context, *Term) error) (o outcome, err error) {
	if f == nil {
		return o, fmt.Errorf("%s: %w: nil function", e.path, lock.ErrBadArgument)
	}
	hold, err := e.acquire(ctx)
	if err != nil {
		return o, fmt.Errorf("campaign: %w", err)
	}
	term := newTerm(e, hold)
	term.working = true
	work, cancel := context.WithCancelCause(term.ctx)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	stopWatching := e.watchOverrun(work)
	defer func() { // also when f panics
		o.work, o.lost = o.failed, term.Err()
		if work.Err() != nil && (errors.Is(o.failed, work.Err()) || errors.Is(o.failed, context.Cause(work))) {
			o.work = nil
		}
		stopWatching()
		stop()
		cancel(ErrResigned)
		// First the context ends, also for whoever was given the term; then the node goes.
		term.end(ErrResigned)
		o.resign = term.release()
	}()
	o.failed = f(work, term)
	return o, nil
}

// overrunAfter is how long a function may go on after its context has ended before that is logged.
const overrunAfter = 10 * time.Second

// watchOverrun logs when a function does not end with its context. stop is to be called when the function has
// returned, and waits for the goroutine that is started here.
func (e *Election) watchOverrun(work context.Context) (stop func()) {
	returned := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-work.Done():
		case <-returned:
			return
		}
		ended := time.Now()
		timer := time.NewTimer(overrunAfter)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-returned:
			return
		}
		log := e.client.Logger().With("path", e.path, "reason", context.Cause(work))
		log.Warn("function goes on after its term has ended", "since", overrunAfter)
		<-returned
		log.Info("function has returned after its term", "since", time.Since(ended))
	})
	return func() {
		close(returned)
		wg.Wait()
	}
}
