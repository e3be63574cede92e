package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
)

// Run leads again and again, until ctx is done: it campaigns, calls f, releases, and campaigns again at the end of the queue. f's
// context ends when the leadership may no longer be ours, and when ctx ends; term is what f leads with. f leads until it returns,
// and is never called twice at a time. After a term of less than 10 ms Run pauses before it campaigns again: about 10 ms at
// first, and longer after each such term in a row, up to about 3 s.
//
// The node is deleted only after f has returned, also when ctx is done, after [Term.Release], and when the connection is
// suspended. So nobody else leads while f still works. Only the end of the session deletes the node earlier. If f has not
// returned ten seconds after its context ended, that is logged, and again when f returns.
//
// Run returns
//   - when ctx is done: the error is that of ctx, joined with f's error unless that is the error or the cause of its context, and with
//     that of Release, which says so if the leadership was lost before;
//   - when f returns an error while it leads: that error. An error that f returns after its term
//     has ended is logged, unless it is the error or the cause of f's context, and Run continues;
//   - when Campaign fails, or Release for another reason than a loss: that error;
//   - at once with [framework.ErrBadArgument] if f is nil.
//
// If f panics, the node is deleted and the panic continues.
func (e *Election) Run(ctx context.Context, f func(ctx context.Context, term *Term) error) error {
	between := wait.Pauses{First: youngTerm, Last: lastPause}
	for {
		o, err := e.lead(ctx, f)
		if err != nil {
			return e.opError("run", err)
		}
		failed := o.failed
		if errors.Is(o.ended, failed) {
			failed = nil // it says that its context is done, and nothing else
		}
		switch {
		case ctx.Err() != nil:
			return errors.Join(e.opError("run", wait.Err(ctx)), failed, o.released)
		case failed != nil && o.ended == nil:
			return errors.Join(failed, o.released)
		case failed != nil:
			e.client.Logger().Warn("function failed after its term", "path", e.path, "term", o.ended, "reason", failed)
		}
		if o.released != nil && !joinsAgain(o.released) {
			return o.released
		}
		if o.took >= youngTerm {
			between.Reset()
		} else if err := engine.Sleep(ctx, engine.Of(e.client), between.Next()); err != nil {
			return e.opError("run", err)
		}
	}
}

const (
	youngTerm    = 10 * time.Millisecond // how long a term must last for the next campaign to begin without a pause
	lastPause    = 3 * time.Second       // the longest pause between two campaigns, and between two tries to join
	overrunAfter = 10 * time.Second      // how long a function may go on after its context has ended before that is logged
)

// Lead is [Election.Run] for one term: it campaigns, calls f once and releases. The error is Campaign's, or f's and Release's
// joined; if the term was lost while f worked, it wraps the loss.
func (e *Election) Lead(ctx context.Context, f func(ctx context.Context, term *Term) error) error {
	o, err := e.lead(ctx, f)
	if err != nil {
		return e.opError("lead", err)
	}
	return errors.Join(o.failed, o.released)
}

// outcome is how a term with a function went.
type outcome struct {
	failed   error // what the function returned
	ended    error // why its context had ended by then; nil if it had not
	released error // what Release said: also the loss, if there was one
	took     time.Duration
}

// lead leads once with f, unless the term has ended before f is called. The error is that of the campaign.
func (e *Election) lead(ctx context.Context, f func(context.Context, *Term) error) (o outcome, err error) {
	if f == nil {
		return o, fmt.Errorf("%w: nil function", framework.ErrBadArgument)
	}
	own, err := e.campaign(ctx)
	if err != nil {
		return o, err
	}
	var overrun sync.WaitGroup
	defer func() { // also when f panics
		o.released = own.Release()
		overrun.Wait() // last: the logger may block
	}()
	// f has another hold of the same lease. It ends with f at the latest, and then own is the last: the node goes.
	hold, err := own.hold.Again(own.Context())
	if err != nil {
		return o, nil // own has ended, too, and says why
	}
	_ = hold.Do(ctx, func(work context.Context) error {
		began, returned := time.Now(), make(chan struct{})
		overrun.Go(func() { e.watchOverrun(work, returned) }) // ends when f has returned
		defer func() {
			if o.took = time.Since(began); work.Err() != nil {
				o.ended = wait.Err(work)
			}
			close(returned)
		}()
		o.failed = f(work, &Term{hold, e.id})
		return nil
	})
	return o, nil
}

// watchOverrun logs when a function does not end with its context. returned is to be closed when the function has returned.
func (e *Election) watchOverrun(work context.Context, returned <-chan struct{}) {
	select {
	case <-work.Done():
	case <-returned:
		return
	}
	over := time.Now()
	select {
	case <-time.After(overrunAfter):
	case <-returned:
		return
	}
	log := e.client.Logger().With("path", e.path, "reason", context.Cause(work))
	log.Warn("function goes on after its term has ended", "since", overrunAfter)
	<-returned
	log.Info("function has returned after its term", "since", time.Since(over))
}
