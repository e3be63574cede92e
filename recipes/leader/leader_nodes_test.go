package leader_test

import (
	"context"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
)

// children reads the nodes below path with their data, by name without protection.
func children(t *testing.T, client *framework.Client, path string) map[string]string {
	t.Helper()
	nodes := make(map[string]string)
	for _, child := range testbed.Children(t, client, path) {
		data, stat, err := client.Get(testbed.Context(t), framework.Join(path, child))
		require.NoError(t, err)
		require.NotZero(t, stat.EphemeralOwner)
		name, id := framework.Unprotected(child)
		require.NotEmpty(t, id)
		nodes[name] = string(data)
	}
	return nodes
}

func latchNodes(t *testing.T, bed *testbed.Bed) { nodes(t, bed, "latch-", "") }

func selectorNodes(t *testing.T, bed *testbed.Bed) {
	nodes(t, bed, "lock-", "default", leader.WithSelector())
}

// nodes checks the nodes of a candidate without an id, whose data are first, and of one with an id.
func nodes(t *testing.T, bed *testbed.Bed, name, first string, opts ...leader.Option) {
	path := testbed.Path(t)
	client := bed.Client(t, framework.WithDefaultData([]byte("default")))
	e := electionOn(client, path, opts...)
	a := campaign(t, e)
	require.Equal(t, first, a.ID())
	ctx, cancel := context.WithCancel(testbed.Context(t))
	c := campaigning(t, ctx, electionOn(client, path, append(opts, leader.WithID("host-7"))...), 2)
	require.Equal(t, map[string]string{name + "0000000000": first, name + "0000000001": "host-7"}, children(t, client, path))
	require.Equal(t, []string{first, "host-7"}, ids(participants(t, e, 2)))
	cancel()
	givenUp(t, c, context.Canceled)
	require.NoError(t, a.Release())
}

func twoElections(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	client := bed.Client(t)
	latch, selector := electionOn(client, path, leader.WithID("l")), electionOn(client, path, leader.WithID("s"), leader.WithSelector())
	a, b := campaign(t, latch), campaign(t, selector)
	for e, id := range map[*leader.Election]string{latch: "l", selector: "s"} {
		require.Equal(t, []string{id}, ids(participants(t, e, 1)))
		require.Equal(t, id, testbed.Must(e.Leader(testbed.Context(t))).ID)
	}
	require.NoError(t, a.Release())
	noLeader(t, latch)
	require.NoError(t, b.Release())
}

func selectorIsAMutex(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	e, client := newElection(t, bed, path, leader.WithSelector())
	m := testbed.Must(mutex.New(client, path))
	term := campaign(t, e)
	require.ErrorIs(t, testbed.Err(m.TryAcquire(testbed.Context(t))), lock.ErrNotAcquired)
	require.NoError(t, term.Release())
	require.NoError(t, m.Do(testbed.Context(t), func(context.Context) error { return nil }))
}

func guard(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	e, client := newElection(t, bed, path)
	data := path + "-data"
	ctx := testbed.Context(t)
	testbed.Create(t, client, data, nil, framework.ContainerParents())
	write := func(term *leader.Term) error {
		_, err := client.Multi(ctx, term.Guard(), &zk.SetDataRequest{Path: data, Version: -1})
		return err
	}
	first := campaign(t, e)
	require.NoError(t, write(first))
	require.NoError(t, first.Release())
	second := campaign(t, e)
	require.ErrorIs(t, write(first), zk.ErrNoNode)
	require.NoError(t, write(second))
	require.NoError(t, second.Release())
	require.ErrorIs(t, write(second), zk.ErrNoNode)

	third := campaign(t, e)
	set := framework.SetOp(data, []byte("third"))
	require.NoError(t, testbed.Err(third.Multi(ctx, set)))
	_, err := second.Multi(ctx, set)
	require.ErrorIs(t, err, framework.ErrLost)
	testbed.OneOp(t, err, "multi", second.Path())
	require.NoError(t, testbed.Err(third.ReleaseWith(ctx, framework.SetOp(data, []byte("resigned")))))
	require.ErrorIs(t, third.Err(), lock.ErrReleased)
	require.Equal(t, "resigned", testbed.Get(t, client, data))
	participants(t, e, 0)
	require.NoError(t, e.Lead(ctx, func(ctx context.Context, term *leader.Term) error {
		_, err := term.ReleaseWith(ctx, framework.SetOp(data, nil))
		require.ErrorIs(t, err, framework.ErrBadArgument, "Lead releases it")
		return term.Err()
	}))
}

func TestBadArgumentsAreRefusedAtOnce(t *testing.T) { // CUR-LDR-09
	client := testbed.NewClient(t, []string{"127.0.0.1:1"})
	for name, c := range map[string]struct {
		client *framework.Client
		path   string
		opt    leader.Option
		want   error
	}{
		"relative path":      {client, "election", leader.WithID(""), framework.ErrBadPath},
		"the root":           {client, "/", leader.WithID(""), framework.ErrBadPath},
		"nil client":         {nil, "/election", leader.WithSelector(), framework.ErrBadArgument},
		"nil option":         {client, "/election", nil, framework.ErrBadArgument},
		"id not UTF-8":       {client, "/election", leader.WithID("\xff"), framework.ErrBadArgument},
		"id too long":        {client, "/election", leader.WithID(strings.Repeat("x", 1<<16+1)), framework.ErrBadArgument},
		"bad error policy":   {client, "/election", leader.WithErrorPolicy(99), framework.ErrBadArgument},
		"character in path":  {client, "/elec\x00tion", leader.WithSelector(), framework.ErrBadPath},
		"empty path element": {client, "/a//b", leader.WithSelector(), framework.ErrBadPath},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, testbed.Err(leader.New(c.client, c.path, c.opt)), c.want)
		})
	}
	e := electionOn(client, "/election")
	require.ErrorIs(t, e.Run(t.Context(), nil), framework.ErrBadArgument)
	require.ErrorIs(t, e.Lead(t.Context(), nil), framework.ErrBadArgument)
}
