//go:build linux

package interop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/leader"
)

// TestElectionsWithJava has an ensemble of its own, for it loses its leader. Instants are compared
// on the clock of this machine, so this needs Linux.
func TestElectionsWithJava(t *testing.T) {
	s := newStage(t)
	for _, kind := range []string{"latch", "selector"} {
		t.Run(kind+": leaders take turns, through faults", func(t *testing.T) {
			testlevel.Need(t, testlevel.Nightly)
			s.election(t, kind).takeTurns(t, s.context(t))
		})
		t.Run(kind+": the same list", func(t *testing.T) { s.election(t, kind).sameList(t, s.context(t)) })
	}
	t.Run("latch: a leader whose session ends", func(t *testing.T) { s.election(t, "latch").succession(t, s.context(t)) })
}

// election is where Java's candidates and ours meet.
type election struct {
	stage
	scene
	kind string // of Java's recipes, as its peer calls them

	mu     sync.Mutex // guards what follows
	terms  []term     // that have ended
	forced map[int64]time.Duration
}

// term is a time in which a candidate led, on the machine's clock.
type term struct {
	id       string
	session  int64 // 0: lost before it was known
	from, to time.Duration
}

func (s stage) election(t *testing.T, kind string) *election {
	t.Helper()
	return &election{stage: s, scene: s.newScene(t), kind: kind, forced: make(map[int64]time.Duration)}
}

// join makes a candidate of ours, which takes no part yet.
func (e *election) join(t *testing.T, client *framework.Client, id string) *leader.Election {
	t.Helper()
	opts := []leader.Option{leader.WithID(id)}
	if e.kind == "selector" {
		opts = append(opts, leader.WithSelector())
	}
	return testbed.Must(leader.New(client, e.path, opts...))
}

// endSession ends a session by force, as the server names it.
func (e *election) endSession(t *testing.T, ctx context.Context, session int64) {
	t.Helper()
	e.mu.Lock()
	e.forced[session] = now()
	e.mu.Unlock()
	require.NoError(t, e.ensemble.ExpireSession(ctx, session))
}

func (e *election) ended(t term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.terms = append(e.terms, t)
}

const candidates, changes = 3, 100 // of each side; of leadership

// takeTurns has three candidates of each side lead in turn, for a hundred changes of leadership,
// while leaders lose their sessions, one is killed, and the ensemble loses its leader. No two terms
// overlap, and everybody leads after that.
func (e *election) takeTurns(t *testing.T, ctx context.Context) {
	var java, ours sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel() // if the test has failed in between
		ours.Wait()
	}()
	bystander := e.join(t, e.scene.client, "")
	first := testbed.Must(e.join(t, e.stage.client(t), "first").Campaign(ctx))
	peers := make(map[string]*peer)
	start := func(id string) {
		p := e.java(t, e.kind, e.path, id, e.over())
		p.hears(t, ctx, "session")
		peers[id] = p
		java.Go(func() { e.listen(t, id, p) })
	}
	var ids []string
	stop := make(chan struct{})
	for i := range candidates {
		ids = append(ids, fmt.Sprintf("java %d", i), fmt.Sprintf("go %d", i))
		start(fmt.Sprintf("java %d", i))
		ours.Go(e.candidate(t, ctx, fmt.Sprintf("go %d", i), stop))
	}
	e.sameParticipants(t, ctx, bystander, 2*candidates+1)
	require.NoError(t, first.Release())

	for _, side := range []string{"go", "java", "go", "go"} {
		e.await(t, ctx, changes/10)
		e.endSession(t, ctx, e.leaderOf(t, ctx, bystander, side).SessionID)
	}
	e.await(t, ctx, changes/10)
	victim := e.leaderOf(t, ctx, bystander, "java").ID
	require.NoError(t, peers[victim].kill())
	e.await(t, ctx, 1)
	start(victim)
	e.loseServer(t, ctx)
	e.awaitAll(t, ctx, ids)

	close(stop)
	e.create(t, ctx, e.over())
	ours.Wait()
	java.Wait()
	for _, err := range overlaps(e.terms, e.forced) {
		assert.NoError(t, err)
	}
	t.Logf("%d terms, %d changes of leadership, longest time without a leader %v", len(e.terms), changesOf(e.terms), longestVacancy(e.terms))
	participants(t, ctx, bystander, 0)
}

// loseServer has the ensemble lose its leader, and get the server back when another client led in
// between.
func (e *election) loseServer(t *testing.T, ctx context.Context) {
	t.Helper()
	server := testbed.Must(e.ensemble.Leader(ctx))
	require.NoError(t, e.ensemble.KillServer(server))
	e.await(t, ctx, 2)
	require.NoError(t, e.ensemble.StartServer(server))
	require.NoError(t, e.ensemble.WaitForQuorum(ctx))
}

// awaitAll waits until each of them has led again, and there were enough changes in all.
func (e *election) awaitAll(t *testing.T, ctx context.Context, ids []string) {
	t.Helper()
	locked := func(condition func() bool) func() bool {
		return func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			return condition()
		}
	}
	e.mu.Lock()
	before := len(e.terms)
	e.mu.Unlock()
	for _, id := range ids {
		again := func() bool { return slices.ContainsFunc(e.terms[before:], func(t term) bool { return t.id == id }) }
		until(t, ctx, locked(again), id+" leads again")
	}
	until(t, ctx, locked(func() bool { return changesOf(e.terms) >= changes }), "changes of leadership")
}

// candidate is one of ours: it leads again and again.
func (e *election) candidate(t *testing.T, ctx context.Context, id string, stop <-chan struct{}) func() {
	client := e.stage.client(t)
	ours := e.join(t, client, id)
	return func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			err := ours.Lead(ctx, func(ctx context.Context, _ *leader.Term) error {
				led := term{id: id, from: now()}
				if session, err := client.Session(ctx); err == nil {
					led.session = session.ID()
				}
				lost := make(chan time.Duration, 1)
				watched := context.AfterFunc(ctx, func() { lost <- now() })
				select {
				case <-time.After(rand.N(20 * time.Millisecond)): // the work
				case <-ctx.Done():
				}
				if led.to = now(); !watched() {
					led.to = <-lost
				}
				e.ended(led)
				return nil
			})
			if err != nil && !errors.Is(err, framework.ErrLost) {
				assert.NoError(t, err)
				return
			}
			if ctx.Err() != nil { // the test has failed
				return
			}
		}
	}
}

// listen notes what a candidate of Java's prints about its terms, until it ends.
func (e *election) listen(t *testing.T, id string, p *peer) {
	for line := range p.lines {
		text, found := strings.CutPrefix(line, "term ")
		if !found {
			continue
		}
		led := term{id: id}
		fields := strings.Fields(text)
		if !assert.Len(t, fields, 3, line) {
			continue
		}
		from, err1 := strconv.ParseInt(fields[0], 10, 64)
		to, err2 := strconv.ParseInt(fields[1], 10, 64)
		session, err3 := strconv.ParseUint(fields[2], 16, 64)
		assert.NoError(t, errors.Join(err1, err2, err3), line)
		led.from, led.to, led.session = time.Duration(from), time.Duration(to), int64(session)
		e.ended(led)
	}
}

// await waits for more terms.
func (e *election) await(t *testing.T, ctx context.Context, more int) {
	t.Helper()
	count := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.terms)
	}
	want := count() + more
	until(t, ctx, func() bool { return count() >= want }, "terms")
}

// leaderOf waits until one of that side leads.
func (e *election) leaderOf(t *testing.T, ctx context.Context, bystander *leader.Election, side string) leader.Participant {
	t.Helper()
	for {
		who, err := bystander.Leader(ctx)
		require.NoError(t, ctx.Err(), "a leader of %s", side)
		if err == nil && strings.HasPrefix(who.ID, side) {
			return who
		}
	}
}

// participants waits until an election has n participants.
func participants(t *testing.T, ctx context.Context, of *leader.Election, n int) (ps []leader.Participant) {
	t.Helper()
	until(t, ctx, func() bool {
		var err error
		ps, err = of.Participants(ctx)
		return err == nil && len(ps) == n
	}, fmt.Sprintf("%d participants", n))
	return ps
}

// sameParticipants waits for a number of them, and has Java list them.
func (e *election) sameParticipants(t *testing.T, ctx context.Context, bystander *leader.Election, n int) {
	t.Helper()
	ps := participants(t, ctx, bystander, n)
	p := e.java(t, "election", e.kind, e.path)
	for i, ours := range ps {
		require.Equal(t, i == 0, ours.Leads)
		require.Equal(t, fmt.Sprintf("%s %v", ours.ID, ours.Leads), p.hears(t, ctx, "participant"))
	}
	p.hears(t, ctx, "done")
}

// overlaps returns the terms that overlap. A session that was ended by force gives no warning, so
// its term counts up to that.
func overlaps(terms []term, forced map[int64]time.Duration) (found []error) {
	terms = slices.Clone(terms)
	for i, t := range terms {
		if at, is := forced[t.session]; is && at < t.to {
			terms[i].to = max(at, t.from)
		}
	}
	slices.SortFunc(terms, func(a, b term) int { return cmp.Compare(a.from, b.from) })
	var last term
	for _, t := range terms {
		if t.from < last.to {
			found = append(found, fmt.Errorf("two leaders for %v: %+v and %+v", min(t.to, last.to)-t.from, last, t))
		}
		if t.to > last.to {
			last = t
		}
	}
	return found
}

// changesOf counts how often another one led than before.
func changesOf(terms []term) (n int) {
	terms = slices.SortedFunc(slices.Values(terms), func(a, b term) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(terms); i++ {
		if terms[i].id != terms[i-1].id {
			n++
		}
	}
	return n
}

func longestVacancy(terms []term) (longest time.Duration) {
	terms = slices.SortedFunc(slices.Values(terms), func(a, b term) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(terms); i++ {
		longest = max(longest, terms[i].from-terms[i-1].to)
	}
	return longest.Round(time.Millisecond)
}

func TestOverlapsAreFound(t *testing.T) {
	terms := []term{{"a", 1, 0, 5}, {"b", 2, 5, 9}, {"a", 3, 10, 20}, {"b", 2, 12, 13}, {"c", 4, 15, 16}}
	require.Len(t, overlaps(terms, nil), 2)
	require.Len(t, overlaps(terms, map[int64]time.Duration{3: 14}), 1)
	require.Empty(t, overlaps(terms, map[int64]time.Duration{3: 11}))
	require.Empty(t, overlaps(terms[:3], nil))
	require.Equal(t, 4, changesOf(terms))
}
