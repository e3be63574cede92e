package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/lock"
)

// Run leads again and again, until ctx is done: it campaigns, calls f, resigns, and campaigns again at the
// end of the queue. f's context ends when the leadership may no longer be ours, and when ctx ends; term is
// what f leads with. f leads until it returns, and is never called twice at a time. After a term of less than 10 ms Run pauses
// before it campaigns again: about 10 ms at first, and longer after each such term in a row, up to about 3 s.
//
// The node is deleted only after f has returned, also when ctx is done, after [Term.Resign], and when the
// connection is suspended. So nobody else leads while f still works. Only the end of the session deletes the
// node earlier. If f has not returned ten seconds after its context ended, that is logged, and again when f
// returns.
//
// Run returns
//   - when ctx is done: the error is that of ctx, joined with f's error if f returned a different one;
//   - when f returns an error while it leads: that error. An error that f returns after its term
//     has ended is logged, unless it only says that the context is done, and Run continues;
//   - when Campaign fails, or Resign for another reason than a loss: that error;
//   - at once with [lock.ErrBadArgument] if f is nil.
//
// If f panics, the node is deleted and the panic continues.
func (e *Election) Run(ctx context.Context, f func(ctx context.Context, term *Term) error) error {
	between := wait.Pauses{First: youngTerm, Last: lastPause}
	for {
		o, err := e.lead(ctx, f)
		if err != nil {
			return e.opError("run", err)
		}
		switch {
		case ctx.Err() != nil:
			return errors.Join(e.opError("run", wait.Err(ctx)), o.work, o.resign)
		case o.lost != nil && o.work != nil:
			e.client.Logger().Warn("function failed after its term", "path", e.path, "term", o.lost, "reason", o.work)
		case o.work != nil:
			return errors.Join(o.work, o.resign)
		}
		if o.resign != nil && !transient(o.resign) {
			return fmt.Errorf("run: %w", o.resign)
		}
		if o.took >= youngTerm {
			between.Reset()
			continue
		}
		if err := engine.Sleep(ctx, engine.Of(e.client), between.Next()); err != nil {
			return e.opError("run", err)
		}
	}
}

// youngTerm is how long a term must last for the next campaign to begin without a pause.
const youngTerm = 10 * time.Millisecond

// Lead is [Election.Run] for one term: it campaigns, calls f once and resigns. The error is Campaign's,
// or f's and Resign's joined; if the term was lost while f worked, it wraps the loss.
func (e *Election) Lead(ctx context.Context, f func(ctx context.Context, term *Term) error) error {
	o, err := e.lead(ctx, f)
	if err != nil {
		return e.opError("lead", err)
	}
	return errors.Join(o.failed, o.resign)
}

// outcome is how a term with a function went.
type outcome struct {
	failed error // what f returned
	work   error // the same, unless it only says that its context is done
	lost   error // why the term ended before f returned; nil if it did not
	resign error // what Resign said: also the loss, if there was one
	took   time.Duration
}

// lead leads once with f, unless the term has ended before f is called. The error is that of the campaign.
func (e *Election) lead(ctx context.Context, f func(context.Context, *Term) error) (o outcome, err error) {
	if f == nil {
		return o, fmt.Errorf("%w: nil function", lock.ErrBadArgument)
	}
	hold, err := e.acquire(ctx)
	if err != nil {
		return o, err
	}
	term := newTerm(e, hold)
	if o.lost = term.Err(); o.lost != nil {
		o.resign = term.release()
		return o, nil
	}
	term.working = true
	began := time.Now()
	work, cancel := context.WithCancelCause(term.ctx)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	returned := make(chan struct{})
	watched := e.watchOverrun(work, returned)
	defer func() { // also when f panics
		o.work, o.lost, o.took = o.failed, term.Err(), time.Since(began)
		if work.Err() != nil && says(o.failed, work) {
			o.work = nil
		}
		close(returned)
		stop()
		cancel(ErrResigned)
		// First the context ends, also for whoever was given the term; then the node goes.
		term.end(ErrResigned)
		o.resign = term.release()
		<-watched // last: the logger may block
	}()
	o.failed = f(work, term)
	return o, nil
}

// says reports whether err says that ctx is done, and nothing else: so each error in it that wraps no other is the
// context's, or part of the cause with which ctx ended.
func says(err error, ctx context.Context) bool {
	wrapped := unwrap(err)
	if len(wrapped) == 0 {
		return errors.Is(err, ctx.Err()) || errors.Is(wait.Err(ctx), err)
	}
	return !slices.ContainsFunc(wrapped, func(err error) bool { return !says(err, ctx) })
}

// unwrap returns the errors that err wraps directly.
func unwrap(err error) []error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return several.Unwrap()
	}
	if inner := errors.Unwrap(err); inner != nil {
		return []error{inner}
	}
	return nil
}

// overrunAfter is how long a function may go on after its context has ended before that is logged.
const overrunAfter = 10 * time.Second

// watchOverrun logs when a function does not end with its context. returned is to be closed when the function has
// returned. done is closed when all is logged.
func (e *Election) watchOverrun(work context.Context, returned <-chan struct{}) (done <-chan struct{}) {
	ended := make(chan struct{})
	go func() { // ends when the function has returned
		defer close(ended)
		select {
		case <-work.Done():
		case <-returned:
			return
		}
		over := time.Now()
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
		log.Info("function has returned after its term", "since", time.Since(over))
	}()
	return ended
}
