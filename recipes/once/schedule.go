package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
)

// Every returns the firings of an interval for [Once.Run]: the multiples of d since the Unix epoch,
// which are alike in all processes and after each restart. Run refuses a d that is not positive.
func Every(d time.Duration) func(time.Time) time.Time {
	return func(t time.Time) time.Time {
		if d <= 0 {
			return t
		}
		since := t.Sub(time.Unix(0, 0)) % d
		if since < 0 {
			since += d
		}
		return t.Add(d - since)
	}
}

// Run calls f at each firing of a schedule, in one process of all that call Run, until ctx is done.
// If the runner dies, another process runs the same firing. If f panics, the lock is released and
// the panic passes through Run.
//
// next returns the first firing after t, which is in UTC. The method Next of a schedule of
// robfig/cron is such a function.
//
// Firings are due by the servers' clock. Run calls f with the latest one that is due and later than
// the last success, so an outage and a long run lead to one call and not to several. [WithMissed]
// limits how late. The first firing of a new path is the first one after the call of Run that
// created its record. The key of a firing is its time in UTC, in the format of [time.RFC3339Nano].
// After [Once.Forget] the latest firing runs again in calls of Run that begin later.
//
// If f fails, its error is logged, and every process tries the firing again: after 1 s, and after
// longer pauses of up to 1 min, until the next firing. Run does the same after an outage and after
// a lost lock.
//
// Errors are
//   - the error of ctx, joined with the error that f has returned since;
//   - [framework.ErrBadArgument] if ctx, next or f is nil, next returns a time that is not after t,
//     or ctx is the context of a function of this job;
//   - [ErrBadValue] if the record node contains data of another program;
//   - [framework.ErrTooLong] if fields of another version leave no room for the record;
//   - [lock.ErrHeld] if ctx derives from a hold of a mutex at the job's path;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the server's errors that a retry cannot fix, such as zk.ErrNoAuth if the client is not
//     permitted to write the record.
func (o *Once) Run(ctx context.Context, next func(t time.Time) time.Time, f func(ctx context.Context, firing time.Time) error) error {
	r := &runner{Once: o, next: next, f: f}
	switch {
	case ctx == nil:
		return r.failed(fmt.Errorf("%w: nil context", framework.ErrBadArgument))
	case next == nil || f == nil:
		return r.failed(fmt.Errorf("%w: nil function", framework.ErrBadArgument))
	}
	pauses := wait.Pauses{First: firstPause, Last: lastPause}
	for {
		again, err := r.step(ctx)
		switch {
		case ctx.Err() != nil:
			if errors.Is(r.result, ctx.Err()) || errors.Is(r.result, context.Cause(ctx)) {
				r.result = nil
			}
			return operr.Join(r.failed(wait.Err(ctx)), r.result)
		case err == nil:
			pauses.Reset()
		case again:
			engine.Of(o.client).Logger().Warn("job failed", "path", o.path, "firing", r.firing, "reason", err)
			pause := pauses.Next()
			if left := r.untilNext(); left > 0 {
				pause = min(pause, left)
			}
			if err := r.sleep(ctx, pause); err != nil {
				return r.failed(err)
			}
		default:
			return r.failed(err)
		}
	}
}

const (
	// firstPause and lastPause are the pauses after failures of a job.
	firstPause = 2 * time.Second // shortened at random, by up to half
	lastPause  = time.Minute
	// longestSleep is how long Run sleeps at most before it looks at the clocks again: a suspended
	// process, or a clock that is set, must not delay a firing for longer.
	longestSleep = time.Minute
)

// runner is a call of Run.
//
//	state      what is next
//	unknown    read or create the record, and learn the servers' time
//	waiting    sleep until the next firing
//	due        an attempt: another process has run the firing, or this one runs it, or it is early
type runner struct {
	*Once
	next func(t time.Time) time.Time
	f    func(ctx context.Context, firing time.Time) error

	clock  servers
	base   time.Time // firings after this one are to run; zero: not known
	firing time.Time // the last one that was due
	result error     // the result of the last call of f
}

// servers is the servers' clock, as far as it is known. It decides when to look. Whether a firing
// is due is decided by a write.
type servers struct{ then, read time.Time }

// now returns the time that was learned and what has passed since: by the wall clock after a
// suspension, and otherwise by the monotonic one. If that is too much, the write tells.
func (s servers) now() time.Time {
	wall := time.Now().Round(0).Sub(s.read.Round(0))
	return s.then.Add(max(wall, time.Since(s.read)))
}

func (r *runner) learn(now time.Time) { r.clock = servers{now, time.Now()} }

func (r *runner) failed(err error) error { return operr.New("run", r.path, err) }

// step performs the action of the state. again reports whether Run continues after an error.
func (r *runner) step(ctx context.Context) (again bool, err error) {
	r.result = nil
	if r.base.IsZero() {
		if err := r.begin(ctx); err != nil {
			return r.after(err)
		}
	}
	firing, upcoming, err := r.due(r.clock.now())
	if err != nil {
		return false, err
	}
	if firing.IsZero() {
		return false, r.sleep(ctx, min(upcoming.Sub(r.clock.now()), longestSleep))
	}
	r.firing = firing
	a := &attempt{Once: r.Once, op: "run", mayWait: true, timed: true, done: r.done, choose: r.choose, f: r.call}
	found, err := a.run(ctx)
	if errors.Is(err, errEarly) {
		return false, nil // the clock is right now
	}
	if found.Ran {
		r.moveTo(r.firing)
	}
	if r.result != nil || found.Ran || errors.Is(err, ErrTooSoon) {
		return true, err
	}
	return r.after(err)
}

// after reports whether Run continues after an error that is not the function's. A loss is final in
// a view of the lost session. Run then returns the end of the session, whatever ended the hold.
func (r *runner) after(err error) (again bool, reason error) {
	var ended *engine.Ended
	lost := errors.Is(err, framework.ErrLost)
	if lost && errors.As(engine.Of(r.client).Over(), &ended) {
		return false, ended
	}
	return lost || verdict.MayPass(err), err
}

// errEarly means that no firing is due by the servers' clock.
var errEarly = errors.New("no firing is due")

// begin creates the record unless it exists, and writes it to learn the servers' time.
func (r *runner) begin(ctx context.Context) error {
	for {
		found, err := r.read(ctx, r.client)
		if err != nil {
			return err
		}
		if found.stat == nil {
			_, err := r.client.Create(ctx, r.node, found.encode(), framework.ContainerParents())
			if err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
			continue
		}
		now, err := r.client.Set(ctx, r.node, found.stamped().encode(), framework.IfVersion(found.stat.Version))
		switch {
		case err == nil:
			r.learn(time.UnixMilli(now.Mtime))
			r.follow(found)
			return nil
		case !changed(err):
			return notWritable(err)
		}
	}
}

// follow notes which firings are left to run.
func (r *runner) follow(found *record) {
	if found.stat == nil {
		return
	}
	r.moveTo(found.created())
	for _, e := range found.done {
		if firing, err := time.Parse(time.RFC3339Nano, e.Key); err == nil {
			r.moveTo(firing)
		}
	}
	if seen := time.UnixMilli(found.stat.Mtime); seen.After(r.clock.now()) {
		r.learn(seen)
	}
}

func (r *runner) moveTo(firing time.Time) {
	if firing.After(r.base) {
		r.base = firing.UTC()
	}
}

// due returns the latest firing after base that is due at now and not too late, or the zero time,
// and the first one after now.
func (r *runner) due(now time.Time) (firing, upcoming time.Time, err error) {
	firing, upcoming, err = latest(r.next, r.base, now)
	if r.cfg.missed > 0 && now.Sub(firing) > r.cfg.missed {
		firing = time.Time{}
	}
	return firing, upcoming, err
}

// latest returns the latest firing after base that is not after now, or the zero time, and the
// first one after now. It halves the time in between, so that an outage of years does not take a
// call for each firing.
func latest(next func(time.Time) time.Time, base, now time.Time) (firing, upcoming time.Time, err error) {
	after := func(t time.Time) time.Time {
		n := next(t.UTC())
		if !n.After(t) && err == nil {
			err = fmt.Errorf("%w: next(%v) returned %v, which is not after it", framework.ErrBadArgument, t.UTC(), n)
		}
		return n
	}
	upcoming = after(base)
	for high := now; err == nil && !upcoming.After(now); {
		firing = upcoming
		middle := firing.Add(high.Sub(firing) / 2)
		if n := after(middle); n.After(now) {
			high = middle
		} else {
			firing = n
		}
		upcoming = after(firing)
	}
	return firing, upcoming, err
}

// done reports whether no firing is due, as far as this process knows the time.
func (r *runner) done(found *record) (Record, bool) {
	r.follow(found)
	firing, _, err := r.due(r.clock.now())
	return Record{}, err == nil && firing.IsZero()
}

// choose returns the key of the latest firing that is due by the servers' clock.
func (r *runner) choose(found *record, now time.Time) (key string, err error) {
	r.learn(now)
	r.follow(found)
	firing, _, err := r.due(now)
	if err == nil && firing.IsZero() {
		err = errEarly
	}
	r.firing = firing
	return firing.UTC().Format(time.RFC3339Nano), err
}

// call calls the function.
func (r *runner) call(ctx context.Context) error {
	r.result = r.f(ctx, r.firing.UTC())
	return r.result
}

// untilNext returns the time until the firing after the last one that was due.
func (r *runner) untilNext() time.Duration {
	if r.firing.IsZero() {
		return 0
	}
	return r.next(r.firing).Sub(r.clock.now())
}

func (r *runner) sleep(ctx context.Context, d time.Duration) error {
	return engine.Sleep(ctx, engine.Of(r.client), d)
}
