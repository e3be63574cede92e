//go:build linux

package interop

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/leader"
)

// sameList has Java and us show an election with candidates of ours: the same ones, in the same
// order.
func (e *election) sameList(t *testing.T, ctx context.Context) {
	bystander := e.join(t, e.stage.client(t), "")
	none := e.java(t, "election", e.kind, e.path)
	require.Equal(t, "false", none.hears(t, ctx, "leader"), "nobody leads")
	ids := []string{"first", "second ö", "third"}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	term := testbed.Must(e.join(t, e.stage.client(t), ids[0]).Campaign(ctx))
	var wg sync.WaitGroup
	for i, id := range ids[1:] {
		ours := e.join(t, e.stage.client(t), id)
		wg.Go(func() {
			assert.ErrorIs(t, testbed.Err(ours.Campaign(ctx)), context.Canceled)
		})
		participants(t, ctx, bystander, i+2)
	}
	ps := testbed.Must(bystander.Participants(ctx))
	p := e.java(t, "election", e.kind, e.path)
	for i, id := range ids {
		require.Equal(t, id, ps[i].ID)
		require.Equal(t, i == 0, ps[i].Leads)
		require.Equal(t, fmt.Sprintf("%s %v", id, i == 0), p.hears(t, ctx, "participant"))
	}
	require.Equal(t, "first true", p.hears(t, ctx, "leader"))
	cancel()
	wg.Wait()
	require.NoError(t, term.Release())
}

// succession has the leader's session end: Java's, and then ours.
func (e *election) succession(t *testing.T, ctx context.Context) {
	java := e.java(t, "leads", e.path, "java")
	session := java.hearsSession(t, ctx)
	java.hears(t, ctx, "leads")
	ours := e.join(t, e.stage.client(t), "go")
	who := testbed.Must(ours.Leader(ctx))
	require.Equal(t, "java", who.ID)
	got := make(chan *leader.Term, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		term, err := ours.Campaign(ctx)
		assert.NoError(t, err)
		got <- term
	})
	defer wg.Wait()
	participants(t, ctx, ours, 2)
	e.endSession(t, ctx, session)
	term := testbed.Receive(t, got, "the term")
	require.NotNil(t, term)
	java.hears(t, ctx, "ended")
	java.hears(t, ctx, "done")

	next := e.java(t, "leads", e.path, "java again")
	next.hears(t, ctx, "session")
	participants(t, ctx, ours, 2)
	require.NoError(t, term.Release())
	next.hears(t, ctx, "leads")
	who = testbed.Must(ours.Leader(ctx))
	require.Equal(t, "java again", who.ID)
}
