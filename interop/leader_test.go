package interop

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/leader"
)

// election is where Java's candidates and ours meet.
type election struct {
	scene
	client func(t *testing.T) *framework.Client
	java   func(t *testing.T, args ...string) *peer
	kill   func(t *testing.T, session string) // as Java writes it
}

func (s stage) election(t *testing.T) election {
	t.Helper()
	return election{scene: s.newScene(t), client: s.client, java: s.java, kill: func(t *testing.T, session string) {
		id, err := strconv.ParseUint(session, 16, 64)
		require.NoError(t, err)
		require.NoError(t, s.ensemble.KillSession(s.context(t), int64(id)))
	}}
}

func javaLatches(t *testing.T, s stage)       { s.election(t).turns(t, s.context(t), "latch") }
func javaSelectors(t *testing.T, s stage)     { s.election(t).turns(t, s.context(t), "selector") }
func javaLatchList(t *testing.T, s stage)     { s.election(t).sameList(t, s.context(t), "latch") }
func javaSelectorList(t *testing.T, s stage)  { s.election(t).sameList(t, s.context(t), "selector") }
func javaLeaderCrashes(t *testing.T, s stage) { s.election(t).succession(t, s.context(t)) }

// kinds are Java's two recipes, as its peer calls them, and how to take part in each.
var kinds = map[string][]leader.Option{"latch": nil, "selector": {leader.AsSelector()}}

func (e election) join(t *testing.T, client *framework.Client, kind, id string) *leader.Election {
	t.Helper()
	joined, err := leader.New(client, e.path, append([]leader.Option{leader.WithID(id)}, kinds[kind]...)...)
	require.NoError(t, err)
	return joined
}

// turns has three candidates of each side lead again and again. Their work is not atomic, so two leaders at a time
// would lose some of it.
func (e election) turns(t *testing.T, ctx context.Context, kind string) {
	const candidates, rounds = 3, 20
	var peers []*peer
	for i := range candidates {
		peers = append(peers, e.java(t, kind, e.path, fmt.Sprintf("java %d", i), e.counter, fmt.Sprint(rounds)))
	}
	for _, p := range peers {
		p.hears(t, ctx, "session")
	}
	var wg sync.WaitGroup
	for i := range candidates {
		client := e.client(t)
		ours := e.join(t, client, kind, fmt.Sprintf("go %d", i))
		wg.Go(func() {
			for range rounds {
				assert.NoError(t, ours.Lead(ctx, func(ctx context.Context, _ *leader.Term) error {
					return e.increment(ctx, client)
				}))
			}
		})
	}
	for _, p := range peers {
		p.hears(t, ctx, "done")
	}
	wg.Wait()
	e.check(t, ctx, 2*candidates*rounds)
}

// sameList has Java and us show an election with candidates of ours: the same ones, in the same order.
func (e election) sameList(t *testing.T, ctx context.Context, kind string) {
	bystander := e.join(t, e.client(t), kind, "")
	none := e.java(t, "election", kind, e.path)
	require.Equal(t, "false", none.hears(t, ctx, "leader"), "nobody leads")
	ids := []string{"first", "second ö", "third"}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	term, err := e.join(t, e.client(t), kind, ids[0]).Campaign(ctx)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i, id := range ids[1:] {
		ours := e.join(t, e.client(t), kind, id)
		wg.Go(func() {
			_, err := ours.Campaign(ctx)
			assert.ErrorIs(t, err, context.Canceled)
		})
		testbed.Eventually(t, func() bool {
			ps, err := bystander.Participants(ctx)
			return err == nil && len(ps) == i+2
		}, "one more participant")
	}
	ps, err := bystander.Participants(ctx)
	require.NoError(t, err)
	p := e.java(t, "election", kind, e.path)
	for i, id := range ids {
		require.Equal(t, id, ps[i].ID)
		require.Equal(t, i == 0, ps[i].Leads)
		require.Equal(t, fmt.Sprintf("%s %v", id, i == 0), p.hears(t, ctx, "participant"))
	}
	require.Equal(t, "first true", p.hears(t, ctx, "leader"))
	cancel()
	wg.Wait()
	require.NoError(t, term.Resign())
}

// succession has the leader's session end: Java's, and then ours.
func (e election) succession(t *testing.T, ctx context.Context) {
	java := e.java(t, "leads", e.path, "java")
	session := java.hears(t, ctx, "session")
	java.hears(t, ctx, "leads")
	ours := e.join(t, e.client(t), "latch", "go")
	who, err := ours.Leader(ctx)
	require.NoError(t, err)
	require.Equal(t, "java", who.ID)
	got := make(chan *leader.Term, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		term, err := ours.Campaign(ctx)
		assert.NoError(t, err)
		got <- term
	})
	defer wg.Wait()
	testbed.Eventually(t, func() bool {
		ps, err := ours.Participants(ctx)
		return err == nil && len(ps) == 2
	}, "our candidate")
	e.kill(t, session)
	term := testbed.Receive(t, got, "the term")
	require.NotNil(t, term)
	java.hears(t, ctx, "ended")
	java.hears(t, ctx, "done")

	next := e.java(t, "leads", e.path, "java again")
	next.hears(t, ctx, "session")
	testbed.Eventually(t, func() bool {
		ps, err := ours.Participants(ctx)
		return err == nil && len(ps) == 2
	}, "Java's candidate")
	require.NoError(t, term.Resign())
	next.hears(t, ctx, "leads")
	who, err = ours.Leader(ctx)
	require.NoError(t, err)
	require.Equal(t, "java again", who.ID)
}
