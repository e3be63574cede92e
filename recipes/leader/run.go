package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/wait"
)

// Run campaigns, calls f as the leader, releases the term, and campaigns again, until ctx is done.
// f's context derives from ctx, and is also cancelled when the leadership may be lost, before
// another process can lead. Calls of f never overlap.
//
// Errors are
//   - [framework.ErrBadArgument] if f is nil;
//   - the error of ctx if ctx is done, joined with the error of f and with the cause of the loss if
//     the term was lost. If Run was waiting and the client is not connected, it wraps
//     zk.ErrNoServer;
//   - the error of f if f fails before its context is done, joined with the cause of the loss if
//     the term is lost before its release;
//   - the server's error, beside one of these or alone, if it refuses to delete the term's node;
//   - [lock.ErrHeld] if ctx derives from a term of the same election, or, with [WithSelector], from
//     a hold of a mutex at its path;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrTooLong] if the id exceeds the client's limit of a request;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the server's errors that a retry cannot fix, such as zk.ErrNoAuth.
func (e *Election) Run(ctx context.Context, f func(ctx context.Context, term *Term) error) error {
	between := wait.Pauses{First: youngTerm, Last: lastPause}
	for {
		o, err := e.lead(ctx, f)
		if err != nil {
			return e.opError("run", err)
		}
		failed := o.failed
		if errors.Is(o.ended, failed) {
			failed = nil // the end of its context
		}
		switch {
		case ctx.Err() != nil:
			return operr.Join(e.opError("run", wait.Err(ctx)), failed, o.released)
		case failed != nil && o.ended == nil:
			return operr.Join(failed, o.released)
		case failed != nil && !repeats(failed, o.ended):
			engine.Of(e.client).Logger().Warn("function failed after its term", "path", e.path, "term", o.ended, "reason", failed)
		}
		if o.released != nil && !e.joinsAgain(o.released) {
			return o.released
		}
		if o.took >= youngTerm {
			between.Reset()
		} else if err := engine.Sleep(ctx, engine.Of(e.client), between.Next()); err != nil {
			return e.opError("run", err)
		}
	}
}

// repeats reports whether the error of a function says only that its context has ended. The error
// of an operation that ended with that context may also name the failure of its last attempt.
func repeats(failed, ended error) bool {
	if failed == nil || ended == nil {
		return false
	}
	if errors.Is(ended, failed) {
		return true
	}
	switch e := failed.(type) {
	case *framework.OpError:
		return bothAre(e, ended, context.Canceled) || bothAre(e, ended, context.DeadlineExceeded) || repeats(e.Err, ended)
	case interface{ Unwrap() error }:
		return repeats(e.Unwrap(), ended)
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !repeats(err, ended) })
	}
	return false
}

func bothAre(a, b, target error) bool { return errors.Is(a, target) && errors.Is(b, target) }

const (
	// youngTerm is how long a term must last for the next campaign to begin without a pause.
	youngTerm = 10 * time.Millisecond
	// lastPause is the longest pause between two campaigns, and between two attempts to join.
	lastPause = 3 * time.Second
	// overrunAfter is how long a function may continue after its context has ended before the
	// overrun is logged.
	overrunAfter = 10 * time.Second
)

// Lead campaigns, calls f once as the leader, and releases the term, even if f panics. f's context
// derives from ctx, and is also cancelled when the leadership may be lost, before another process
// can lead.
//
// Errors are
//   - the error of f, joined with the cause of the loss if the term was lost;
//   - the cause of the loss, which wraps [framework.ErrLost], if the term was lost before its
//     release. f is not called if that happens before the call;
//   - the server's error, beside the error of f or alone, if it refuses to delete the term's node;
//   - [framework.ErrBadArgument] if f is nil;
//   - the error of ctx, wrapped with zk.ErrNoServer if the client is not connected;
//   - [lock.ErrHeld] if ctx derives from a term of the same election, or, with [WithSelector], from
//     a hold of a mutex at its path;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrTooLong] if the id exceeds the client's limit of a request;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the server's errors that a retry cannot fix, such as zk.ErrNoAuth.
func (e *Election) Lead(ctx context.Context, f func(ctx context.Context, term *Term) error) error {
	o, err := e.lead(ctx, f)
	if err != nil {
		return e.opError("lead", err)
	}
	return operr.Join(o.failed, o.released)
}

// outcome is how a term with a function has ended.
type outcome struct {
	failed   error // what the function returned
	ended    error // why its context had ended by then; nil if it had not
	released error // what Release said: also the loss, if there was one
	took     time.Duration
}

// lead leads once with f, unless the term has ended before f is called. The error is the
// campaign's.
func (e *Election) lead(ctx context.Context, f func(context.Context, *Term) error) (o outcome, err error) {
	if f == nil {
		return o, fmt.Errorf("%w: nil function", framework.ErrBadArgument)
	}
	own, err := e.campaign(ctx)
	if err != nil {
		return o, err
	}
	var overrun sync.WaitGroup
	defer func() { // even if f panics
		o.released = own.Release()
		overrun.Wait() // last: the logger may block
	}()
	// f has another hold of the same lease. It ends with f at the latest. Then own is the last one,
	// and the node is deleted.
	hold, err := inside.Again(own.hold)
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
		o.failed = f(work, &Term{hold: hold, id: e.id})
		return nil
	})
	return o, nil
}

// watchOverrun logs if a function does not return when its context ends. returned is closed when
// the function has returned.
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
	log := engine.Of(e.client).Logger().With("path", e.path, "reason", context.Cause(work))
	log.Warn("function still running after its term has ended", "since", overrunAfter)
	<-returned
	log.Info("function returned after its term", "since", time.Since(over))
}
