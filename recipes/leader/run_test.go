package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
)

// journal is a log that can be read.
type journal struct {
	testbed.Output
}

func (j *journal) logger() framework.Option {
	return framework.WithLogger(slog.New(slog.NewTextHandler(j, nil)))
}

// run starts a Run.
func run(ctx context.Context, e *leader.Election, f func(context.Context, *leader.Term) error) <-chan error {
	ended := testbed.Go(func() error { return e.Run(ctx, f) })
	synctest.Wait()
	return ended
}

// TestNodeStaysUntilTheWorkHasReturned has work overrun its context, for each reason that ends one.
// client-go's ReleaseOnCancel releases earlier.
func TestNodeStaysUntilTheWorkHasReturned(t *testing.T) {
	for name, stop := range map[string]func(w world, cancel context.CancelFunc, term *leader.Term){
		"ctx is done":   func(_ world, cancel context.CancelFunc, _ *leader.Term) { cancel() },
		"release":       func(w world, _ context.CancelFunc, term *leader.Term) { assert.NoError(w, term.Release()) },
		"release twice": func(w world, _ context.CancelFunc, term *leader.Term) { releaseTwice(w.T, term) },
		"suspended":     func(w world, _ context.CancelFunc, _ *leader.Term) { w.server.CutConnections() },
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			var log journal
			e, other := electionOn(w.client(log.logger()), "/election"), w.election()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var term *leader.Term
			var work context.Context
			finish := make(chan struct{})
			first := true
			ended := run(ctx, e, func(ctx context.Context, t *leader.Term) error {
				if !first {
					return errEnough
				}
				first = false
				work, term = ctx, t
				<-finish
				return nil
			})
			next := w.campaigning(t.Context(), other)
			stop(w, cancel, term)
			testbed.Receive(t, work.Done(), "the end of the context")
			time.Sleep(9 * time.Second) // virtual time, less than the ten seconds
			synctest.Wait()
			require.NotContains(t, log.String(), "still running")
			time.Sleep(time.Minute) // virtual time, after which the overrun is logged
			require.Contains(t, log.String(), "function still running after its term has ended")
			require.True(t, w.server.Exists(term.Path()))
			waiting(t, next)
			require.NotContains(t, log.String(), "function returned")
			close(finish)
			successor := elected(t, next)
			synctest.Wait()
			require.Contains(t, log.String(), "function returned")
			require.NoError(t, successor.Release())
			err := testbed.Receive(t, ended, "the end")
			if ctx.Err() != nil {
				require.ErrorIs(t, err, context.Canceled)
			} else {
				require.ErrorIs(t, err, errEnough, "it leads again")
			}
			require.Empty(t, w.nodes())
		})
	}
}

func releaseTwice(t *testing.T, term *leader.Term) { // CURATOR-518
	assert.NoError(t, term.Release())
	assert.ErrorIs(t, term.Release(), lock.ErrReleased)
	assert.ErrorIs(t, term.Err(), lock.ErrReleased)
}

// TestRunGoesOn covers the events that must not end Run.
func TestRunGoesOn(t *testing.T) {
	for name, f := range map[string]func(w world, client *framework.Client, ctx context.Context, term *leader.Term) error{
		// CUR-LDR-13, CURATOR-671
		"when the work returns": func(world, *framework.Client, context.Context, *leader.Term) error { return nil },
		// CUR-LDR-15, CURATOR-468
		"when it was released": func(w world, _ *framework.Client, ctx context.Context, term *leader.Term) error {
			releaseTwice(w.T, term)
			<-ctx.Done()
			assert.ErrorIs(w, context.Cause(ctx), lock.ErrReleased)
			return ctx.Err()
		},
		// CURATOR-16, -73
		"when the session ends": func(w world, client *framework.Client, ctx context.Context, _ *leader.Term) error {
			assert.NoError(w, w.server.ExpireSession(w.session(client)))
			<-ctx.Done()
			return ctx.Err()
		},
		"when the connection is cut": func(w world, _ *framework.Client, ctx context.Context, _ *leader.Term) error {
			w.server.CutConnections()
			<-ctx.Done()
			return context.Cause(ctx)
		},
		"when its node is deleted": func(w world, client *framework.Client, ctx context.Context, term *leader.Term) error {
			assert.NoError(w, client.Delete(w.Context(), term.Path()))
			<-ctx.Done()
			assert.ErrorIs(w, term.Err(), lock.ErrNodeDeleted)
			assert.ErrorIs(w, term.Release(), lock.ErrNodeDeleted)
			return nil
		},
		"when its node is deleted and nobody looks": func(w world, client *framework.Client, ctx context.Context, term *leader.Term) error {
			assert.NoError(w, client.Delete(w.Context(), term.Path()))
			return nil
		},
		"when the work fails after a loss": func(w world, _ *framework.Client, ctx context.Context, _ *leader.Term) error {
			w.server.CutConnections()
			<-ctx.Done()
			return errors.New("half done")
		},
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			var log journal
			client := w.client(log.logger())
			terms := 0
			err := electionOn(client, "/election").Run(testbed.Context(t), func(ctx context.Context, term *leader.Term) error {
				if terms++; terms > 3 {
					return errEnough
				}
				assert.Len(t, w.nodes(), 1)
				return f(w, client, ctx, term)
			})
			require.ErrorIs(t, err, errEnough)
			require.NotErrorIs(t, err, framework.ErrLost)
			require.Equal(t, 4, terms)
			w.soon()
			require.Empty(t, w.nodes())
			require.Equal(t, name == "when the work fails after a loss", strings.Contains(log.String(), "half done"), "%s", &log)
		})
	}
}

// TestRunReturns covers the events that end Run. CURATOR-15: an exception ended the loop without a
// report.
func TestRunReturns(t *testing.T) {
	broken := errors.New("broken")
	type work func(w world, client *framework.Client, cancel context.CancelFunc, ctx context.Context) error
	returns := func(err error) work {
		return func(world, *framework.Client, context.CancelFunc, context.Context) error { return err }
	}
	cancels := func(err error) work {
		return func(_ world, _ *framework.Client, cancel context.CancelFunc, ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return err
		}
	}
	for name, c := range map[string]struct {
		f    work
		want []error
	}{
		"the work's error":                       {returns(broken), []error{broken}},
		"the work's own cancellation":            {returns(context.Canceled), []error{context.Canceled}},
		"the end of ctx":                         {cancels(context.Canceled), []error{context.Canceled}},
		"the end of ctx, and what the work says": {cancels(broken), []error{context.Canceled, broken}},
		"the client's end": {
			func(_ world, client *framework.Client, _ context.CancelFunc, ctx context.Context) error {
				go client.Close()
				<-ctx.Done()
				return ctx.Err()
			},
			[]error{framework.ErrClosed},
		},
		"a node that cannot be deleted": {
			func(w world, client *framework.Client, _ context.CancelFunc, _ context.Context) error {
				testbed.SetACL(w.T, client, "/election", zk.WorldACL(zk.PermAll&^zk.PermDelete))
				return nil
			},
			[]error{zk.ErrNoAuth},
		},
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client := w.client()
			ctx, cancel := context.WithCancel(testbed.Context(t))
			defer cancel()
			terms := 0
			err := electionOn(client, "/election").Run(ctx, func(ctx context.Context, _ *leader.Term) error {
				terms++
				return c.f(w, client, cancel, ctx)
			})
			require.Equal(t, 1, terms)
			for _, want := range c.want {
				require.ErrorIs(t, err, want)
			}
			if !errors.Is(err, zk.ErrNoAuth) {
				w.soon()
				require.Empty(t, w.nodes())
			}
		})
	}
}

func TestLeadIsOneTerm(t *testing.T) { // CUR-LDR-13, without the option
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		e := electionOn(client, "/election")
		terms := 0
		work := func(err error) func(context.Context, *leader.Term) error {
			return func(context.Context, *leader.Term) error {
				terms++
				return err
			}
		}
		require.NoError(t, e.Lead(t.Context(), work(nil)))
		require.ErrorIs(t, e.Lead(t.Context(), work(errEnough)), errEnough)
		require.Equal(t, 2, terms)
		require.ErrorIs(t, e.Lead(t.Context(), func(ctx context.Context, _ *leader.Term) error {
			require.NoError(t, w.server.ExpireSession(w.session(client)))
			<-ctx.Done()
			return nil
		}), framework.ErrLost, "the loss is returned")
		require.ErrorIs(t, e.Lead(testbed.Cancelled(t), work(nil)), context.Canceled)
		require.Equal(t, 2, terms)
		w.soon()
		require.Empty(t, w.nodes())
	})
}

// TestRun_ContextDerivesFromTheCallers: Lead's, too. The deadline ends the term with its own error.
func TestRun_ContextDerivesFromTheCallers(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Minute)
		defer cancel()
		e := w.election()
		work := func(in context.Context, term *leader.Term) error {
			want, _ := ctx.Deadline()
			deadline, _ := in.Deadline()
			require.Equal(t, want, deadline)
			require.Equal(t, "value", in.Value(key{}))
			return nil
		}
		require.NoError(t, e.Lead(ctx, work))
		err := e.Run(ctx, func(in context.Context, term *leader.Term) error {
			if err := work(in, term); err != nil {
				return err
			}
			<-in.Done()
			require.Equal(t, context.DeadlineExceeded, in.Err())
			return in.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, context.Canceled)
		w.soon()
		require.Empty(t, w.nodes())
	})
}

func TestTermHasTheValuesOfTheCampaignsContextAndNotItsEnd(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		term := elected(t, campaigns(ctx, w.election()))
		cancel()
		synctest.Wait()
		require.NoError(t, term.Err())
		require.Equal(t, "value", term.Context().Value(key{}))

		require.NoError(t, term.Release())
		w.soon()
		require.Empty(t, w.nodes())
	})
}

// TestWhatTheWorkSaysBesideTheEndOfItsContext is returned, or logged if the term was lost.
func TestWhatTheWorkSaysBesideTheEndOfItsContext(t *testing.T) {
	half := errors.New("half done")
	for name, say := range map[string]func(ctx context.Context) error{
		"joined": func(ctx context.Context) error { return errors.Join(ctx.Err(), half) },
		"wrapped": func(ctx context.Context) error {
			return fmt.Errorf("stop: %w", fmt.Errorf("%w: %w", context.Cause(ctx), half))
		},
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			var log journal
			e := electionOn(w.client(log.logger()), "/election")
			ctx, cancel := context.WithCancel(testbed.Context(t))
			defer cancel()
			terms := 0
			err := e.Run(ctx, func(ctx context.Context, _ *leader.Term) error {
				if terms++; terms == 1 {
					w.server.CutConnections()
				} else {
					assert.Contains(t, log.String(), "half done")
					cancel()
				}
				<-ctx.Done()
				return say(ctx)
			})
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, half)
			require.Equal(t, 2, terms)
		})
	}
}

// several is an error that may wrap others.
type several []error

func (s several) Error() string   { return "half done" }
func (s several) Unwrap() []error { return s }

// perhaps is an error that may wrap another.
type perhaps struct{ err error }

func (p perhaps) Error() string { return "half done" }
func (p perhaps) Unwrap() error { return p.err }

// TestWhetherTheWorkSaysMoreThanTheEndOfItsContext has errors that could be taken for the end of
// the context, and others for more.
func TestWhetherTheWorkSaysMoreThanTheEndOfItsContext(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		e := w.election()
		reason := errors.New("the boss said so")
		for name, c := range map[string]struct {
			cause, work error
			more        bool
		}{
			"nothing wrapped, of several":  {reason, several{}, true},
			"nothing wrapped, of one":      {reason, perhaps{}, true},
			"nothing missing":              {reason, several{nil}, true},
			"the end":                      {reason, context.Canceled, false},
			"the end, wrapped":             {reason, perhaps{several{context.Canceled}}, true},
			"the cause":                    {reason, reason, false},
			"the cause, and more":          {reason, several{reason, errEnough}, true},
			"a cause that wraps nothing":   {perhaps{}, perhaps{}, false},
			"a cause that is not compared": {several{reason}, several{reason}, true},
			"what only reads like the end": {reason, errors.New("context canceled"), true},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			err := e.Run(ctx, func(ctx context.Context, _ *leader.Term) error {
				cancel(c.cause)
				<-ctx.Done()
				return c.work
			})
			require.ErrorIs(t, err, context.Canceled, name)
			// What the work says is joined to the end of ctx unless it is its error or its cause.
			_, more := err.(interface{ Unwrap() []error })
			require.Equal(t, c.more, more, "%s: %v", name, err)
		}
	})
}

// stuck is a log that blocks at a message.
type stuck struct {
	at   string
	goOn chan struct{}
}

func (s stuck) Write(line []byte) (int, error) {
	if strings.Contains(string(line), s.at) {
		<-s.goOn
	}
	return len(line), nil
}

// TestALogThatStandsStillDoesNotKeepTheNode blocks the log at each message about work that overruns
// its term.
func TestALogThatStandsStillDoesNotKeepTheNode(t *testing.T) {
	for _, at := range []string{"function still running", "function returned"} {
		virtualRun(t, at, func(t *testing.T, w world) {
			log := stuck{at, make(chan struct{})}
			goOn := sync.OnceFunc(func() { close(log.goOn) })
			defer goOn()
			e := electionOn(w.client(framework.WithLogger(slog.New(slog.NewTextHandler(log, nil)))), "/election")
			finish, lost := make(chan struct{}), make(chan struct{})
			ended := testbed.Go(func() error {
				return e.Lead(t.Context(), func(_ context.Context, term *leader.Term) error {
					assert.NoError(t, term.Release())
					close(lost)
					<-finish
					return nil
				})
			})
			<-lost
			next := w.campaigning(t.Context(), w.election())
			time.Sleep(11 * time.Second) // virtual time: the overrun is logged after ten seconds
			synctest.Wait()
			close(finish)
			term := elected(t, next)
			goOn()
			require.NoError(t, testbed.Receive(t, ended, "the end"))
			require.NoError(t, term.Release())
		})
	}
}

// looked is a context that calls look each time it is asked whether it has ended. A campaign asks a
// last time when it has a term.
type looked struct {
	context.Context
	look func()
}

func (l looked) Err() error {
	l.look()
	return l.Context.Err()
}

// TestATermThatIsLostBeforeTheWorkBegins: Lead returns the loss, Run continues, and neither calls
// the function with that term.
func TestATermThatIsLostBeforeTheWorkBegins(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		// Some losses may precede a term. Then the campaign begins again.
		e, losses := w.election(), 10
		ctx := looked{t.Context(), func() {
			names := w.nodes()
			if losses == 0 || len(names) == 0 {
				return
			}
			losses--
			stat, err := w.server.Stat("/election/" + names[0])
			assert.NoError(t, err)
			assert.NoError(t, w.server.ExpireSession(stat.EphemeralOwner))
			w.soon()
		}}
		err := e.Lead(ctx, func(context.Context, *leader.Term) error {
			t.Error("the term was lost before")
			return nil
		})
		require.ErrorIs(t, err, framework.ErrSessionLost)

		losses = 3
		done := errors.New("done")
		err = e.Run(ctx, func(ctx context.Context, term *leader.Term) error {
			assert.Zero(t, losses)
			assert.NoError(t, ctx.Err())
			assert.NoError(t, term.Err())
			return done
		})
		require.ErrorIs(t, err, done)
		require.Empty(t, w.nodes())
	})
}

// TestRunPausesAfterShortTerms has a function that returns at once.
func TestRunPausesAfterShortTerms(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		terms := 0
		short := func(context.Context, *leader.Term) error { terms++; return nil }
		err := w.election().Run(testbed.Timeout(t, 10*time.Second), short)
		require.EqualError(t, err, "run /election: context deadline exceeded")
		require.Less(t, terms, 30)

		// in the middle of a term
		ctx := testbed.Timeout(t, 9950*time.Millisecond)
		terms = 0
		require.Error(t, w.election().Run(ctx, func(context.Context, *leader.Term) error {
			terms++
			time.Sleep(100 * time.Millisecond) // virtual time: a term that is not short
			return nil
		}))
		require.Equal(t, 100, terms)
	})
}

// TestAnOrderedShutdownSaysNothingElse ends the context of candidates that wait behind a leader.
func TestAnOrderedShutdownSaysNothingElse(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		campaign(t, w.election())
		ctx, cancel := context.WithCancel(t.Context())
		waits := w.campaigning(ctx, w.election())
		runs := run(ctx, w.election(), func(context.Context, *leader.Term) error { return nil })
		cancel()
		require.EqualError(t, (<-waits).err, "campaign /election: context canceled")
		require.EqualError(t, <-runs, "run /election: context canceled")
	})
}

// TestWhatIsLoggedInAnOutage: that a leadership is lost, and not that candidates try to join, which
// they cannot.
func TestWhatIsLoggedInAnOutage(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		var log journal
		client := w.client(log.logger())
		e := electionOn(client, "/election")
		campaign(t, e)
		c := w.campaigning(testbed.Timeout(t, 5*time.Minute), e)
		w.server.Stop() // nothing can join
		givenUp(t, c, zk.ErrNoServer)
		require.NoError(t, client.Close())
		synctest.Wait()
		require.Contains(t, log.String(), `msg="leadership lost"`)
		require.NotContains(t, log.String(), "rejoins")
	})
}

// An error of the function that only wraps the end of its context is not logged.
func TestRun_DoesNotLogTheEndOfTheContext(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		var log journal
		c := w.client(log.logger())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		leads := make(chan struct{}, 2)
		ended := run(ctx, electionOn(c, "/election"), func(ctx context.Context, _ *leader.Term) error {
			leads <- struct{}{}
			<-ctx.Done()
			_, _, err := c.Get(ctx, "/")
			return fmt.Errorf("work: %w", err)
		})
		<-leads
		require.NoError(t, w.server.ExpireSession(w.session(c)))
		<-leads
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.NoError(t, c.Close())
		require.Contains(t, log.String(), "session lost")
		require.NotContains(t, log.String(), "function failed after its term")
	})
}

// TestCampaign_InsideATermOfTheElection: the candidate would wait for its caller's term. A second
// Election of the client at the path is the same one.
func TestCampaign_InsideATermOfTheElection(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		one, two := electionOn(client, "/election"), electionOn(client, "/election")
		nothing := func(context.Context, *leader.Term) error { assert.Fail(t, "called"); return nil }
		inside := func(ctx context.Context) {
			for _, e := range []*leader.Election{one, two} {
				_, err := e.Campaign(ctx)
				require.ErrorIs(t, err, lock.ErrHeld)
				testbed.OneOp(t, err, "campaign", e.Path())
				require.ErrorIs(t, e.Lead(ctx, nothing), lock.ErrHeld)
				require.ErrorIs(t, e.Run(ctx, nothing), lock.ErrHeld)
			}
			require.Len(t, w.nodes(), 1)
		}
		term := campaign(t, one)
		late := func(term *leader.Term) context.Context { // it would wait for itself
			ctx, cancel := context.WithTimeout(context.WithoutCancel(term.Context()), time.Hour)
			t.Cleanup(cancel)
			return ctx
		}
		inside(late(term))
		require.NoError(t, term.Release())
		require.NoError(t, one.Lead(testbed.Timeout(t, time.Hour), func(ctx context.Context, _ *leader.Term) error { inside(ctx); return nil }))

		term = elected(t, campaigns(late(term), two)) // the term is over
		w.server.CutConnections()
		testbed.Receive(t, term.Done(), "the suspension")
		began := time.Now()
		_, err := one.Campaign(late(term))
		require.ErrorIs(t, err, framework.ErrSuspended, "its node exists until Release")
		require.Zero(t, time.Since(began), "at once")
		_ = term.Release()
		w.soon()
		require.Empty(t, w.nodes())
	})
}
