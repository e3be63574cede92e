package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

const electionPath = "/sim/election"

// election is candidates that lead in turns, by Run, Lead and Campaign, and others that observe
// them.
type election struct {
	*world
	terms     *monitor
	selector  bool
	observing sync.WaitGroup
	stop      context.CancelFunc
	observers []*observer
}

func newElection(w *world) *election {
	return &election{world: w, terms: w.another(1), selector: w.Seed%3 == 0}
}

func (e *election) start(wg *sync.WaitGroup) error {
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	observers := e.actors("observer", 1)
	for i, a := range e.actors("candidate", 1+int(e.Seed%2)) {
		opts := []leader.Option{leader.WithID(a.name)}
		if e.selector {
			opts = append(opts, leader.WithSelector())
		}
		of, err := leader.New(a.client, electionPath, opts...)
		if err != nil {
			return err
		}
		c := &candidate{a, e, of}
		wg.Go(c.stand)
		if i < 2 {
			o := &observer{actor: observers[i], election: e, of: of}
			e.observers = append(e.observers, o)
			e.observing.Go(func() { o.observe(ctx) }) // ends with stop
		}
	}
	return nil
}

// candidate stands for election again and again.
type candidate struct {
	*actor
	of *election
	*leader.Election
}

// errEnough is what a function that leads returns to end Run.
var errEnough = errors.New("led enough")

func (c *candidate) stand() {
	c.repeat(3*time.Second, time.Minute, func(ctx context.Context) {
		var err error
		switch c.random.IntN(3) {
		case 0:
			err = c.Run(ctx, c.lead)
		case 1:
			err = c.Lead(ctx, c.lead)
		default:
			err = c.campaign(ctx)
		}
		c.monitor.count("candidacies")
		if !errors.Is(err, errEnough) && err != nil {
			c.monitor.count("candidacy ended: " + reason(err))
		}
		c.look()
	})
	c.once("Lead", func(ctx context.Context) error {
		// A term may end at once with a session that was ended by force just before, or a suspended
		// connection.
		err := c.Lead(ctx, c.lead)
		if errors.Is(err, errEnough) || errors.Is(err, framework.ErrLost) {
			err = nil
		}
		return err
	})
}

// campaign leads without a function.
func (c *candidate) campaign(ctx context.Context) error {
	term, err := c.Campaign(ctx)
	if err != nil {
		return err
	}
	h := c.held(term, nil)
	c.of.terms.enter(h)
	c.sleep(upTo(c.random, 5*time.Second), term.Done())
	err = term.Release()
	c.of.terms.leave(h)
	return err
}

// held is a term as the monitor sees it. running is nil for a term without a function.
func (c *candidate) held(term *leader.Term, running *atomic.Bool) *held {
	h := c.hold(term.Context(), int(c.owners.Add(1)), term.Session(), term.Path())
	if running != nil {
		h.believe = func() bool {
			if h.ctx.Err() == nil {
				return true
			}
			// Its node stays until the function has returned, unless the session ends.
			resigned := errors.Is(context.Cause(h.ctx), lock.ErrReleased) || errors.Is(context.Cause(h.ctx), context.DeadlineExceeded)
			return running.Load() && resigned && c.serves(h.session)
		}
	}
	return h
}

// serves reports whether the servers have a session.
func (w *world) serves(session int64) bool {
	leader, err := w.cluster.Leader()
	return err == nil && slices.ContainsFunc(leader.Sessions(), func(s zktest.Session) bool { return s.ID == session })
}

// lead is the function that leads.
func (c *candidate) lead(ctx context.Context, term *leader.Term) error {
	var running atomic.Bool
	running.Store(true)
	h := c.held(term, &running)
	c.of.terms.enter(h)
	defer c.of.terms.leave(h)
	defer running.Store(false)
	c.monitor.count("terms")
	if c.random.IntN(3) == 0 {
		if token, err := term.FencingToken(ctx); err == nil {
			c.of.terms.learn(h, token)
		}
	}
	c.sleep(upTo(c.random, 8*time.Second), ctx.Done())
	if c.random.IntN(4) == 0 {
		_ = term.Release() // it only ends the context
	}
	if c.random.IntN(3) == 0 {
		c.sleep(upTo(c.random, 3*time.Second), nil) // what a function does that is slow to end
	}
	if c.random.IntN(2) == 0 {
		return errEnough
	}
	return nil
}

// look asks who takes part.
func (c *candidate) look() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if c.random.IntN(2) == 0 {
		if _, err := c.Leader(ctx); err != nil && !errors.Is(err, leader.ErrNoLeader) {
			c.monitor.count("leader not known: " + reason(err))
		}
		return
	}
	all, err := c.Participants(ctx)
	if err != nil {
		return
	}
	for i, p := range all {
		if p.Leads != (i == 0) || i > 0 && p.Token <= all[i-1].Token {
			c.monitor.fail("election", "%s sees %+v", c.name, all)
		}
	}
}

// leads returns the token of the present leader, as the servers' leader knows it, or 0.
func (e *election) leads() (token int64) {
	server, err := e.cluster.Leader()
	if err != nil {
		return 0
	}
	names, _ := server.Children(electionPath)
	for _, name := range names {
		stat, err := server.Stat(electionPath + "/" + name)
		if err == nil && (token == 0 || stat.Czxid < token) {
			token = stat.Czxid
		}
	}
	return token
}

// conclude requires that observers know that all have resigned.
func (e *election) conclude() {
	e.eventually("election", func() string {
		for _, o := range e.observers {
			o.mu.Lock()
			last := o.last
			o.mu.Unlock()
			if last.Elected || last.Stale {
				return fmt.Sprintf("an observer of %s still sees %+v", o.name, last)
			}
		}
		return ""
	})
	e.stop()
	e.observing.Wait()
}
