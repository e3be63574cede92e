package model_test

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/model"
	"github.com/gocurator/curator/internal/test/testlevel"
)

var (
	states = flag.Int("model.states", testlevel.Pick(60_000, 60_000, 1_000_000), "states of each world, at most")
	limit  = flag.Duration("model.time", time.Minute, "time for each world, at most")
)

var (
	viewer = model.Client{Goroutines: 1, Acquires: 1, Views: true}
	twice  = model.Client{Goroutines: 1, Acquires: 2, Views: true}
	two    = model.Client{Goroutines: 2, Acquires: 1, Views: true}
	lister = model.Client{Goroutines: 1, Acquires: 1}
	secret = model.Client{Goroutines: 1, Acquires: 1, Hidden: true}

	listsTwice = model.Client{Goroutines: 1, Acquires: 2}
)

// worlds are those in which the rule must hold.
var worlds = map[string]model.Config{
	"two goroutines and a lister":           {Clients: []model.Client{two, lister}, Lag: 2, Views: 1},
	"two viewers":                           {Clients: []model.Client{twice, viewer}, Lag: 2, Views: 2},
	"a reaped parent":                       {Clients: []model.Client{two, lister}, Lag: 2, Views: 1, Reap: 1},
	"a reaped parent and an operator":       {Clients: []model.Client{viewer, viewer}, Lag: 2, Views: 2, Reap: 1, Admin: 1},
	"an operator":                           {Clients: []model.Client{two, lister}, Lag: 2, Views: 1, Admin: 1},
	"a lost connection":                     {Clients: []model.Client{two, lister}, Lag: 2, Views: 2, Cut: 1},
	"a session that ends":                   {Clients: []model.Client{two, lister}, Lag: 2, Views: 1, Expire: 1},
	"a waiter that gives up":                {Clients: []model.Client{two, viewer}, Lag: 2, Views: 2, GiveUp: 1},
	"a node that nobody may read":           {Clients: []model.Client{twice, secret}, Lag: 2, Views: 1},
	"such a node and a lost connection":     {Clients: []model.Client{viewer, secret}, Lag: 1, Views: 1, Admin: 1, Cut: 1},
	"writers that become readers":           {Clients: []model.Client{two, viewer}, Lag: 2, Views: 2, Writers: true},
	"listers":                               {Clients: []model.Client{lister, lister, lister}, Lag: 2, GiveUp: 1},
	"listers and an operator":               {Clients: []model.Client{lister, lister, lister}, Lag: 1, Admin: 1},
	"listers and a lost connection":         {Clients: []model.Client{lister, lister, lister}, Lag: 1, Cut: 1, Admin: 1},
	"listers, a session and a new parent":   {Clients: []model.Client{listsTwice, lister}, Lag: 2, Expire: 1, Reap: 1, Admin: 1},
	"listers and a node nobody may read":    {Clients: []model.Client{lister, lister, secret}, Lag: 1},
	"readers, an operator and a new parent": {Clients: []model.Client{viewer, lister}, Lag: 2, Views: 1, Writers: true, Reap: 1, Admin: 1},
}

func TestRuleHolds(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly)
	for name, cfg := range worlds {
		t.Run(name, func(t *testing.T) {
			r := model.Explore(&cfg, *states, *limit)
			t.Log(r)
			require.Empty(t, r.Bad, strings.Join(r.Trace, "\n"))
		})
	}
}

// TestEachConditionIsNeeded leaves one condition out at a time, in a world in which that shows: two
// hold, or a waiter waits for ever.
func TestEachConditionIsNeeded(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly)
	for weaken, c := range map[model.Weaken]struct {
		world model.Config
		bad   string
	}{
		model.NoList:    {model.Config{Clients: []model.Client{viewer, lister}, Lag: 2, Views: 1}, "is ahead"},
		model.ListFirst: {model.Config{Clients: []model.Client{viewer, lister}, Lag: 2, Views: 1}, "is ahead"},
		model.NoCount:   {model.Config{Clients: []model.Client{viewer, secret}, Lag: 2, Views: 1}, "is ahead"},
		model.Memory:    {model.Config{Clients: []model.Client{two, lister}, Lag: 1, Views: 1, GiveUp: 1}, "is ahead"},
		model.NoOwn:     {model.Config{Clients: []model.Client{viewer, lister}, Lag: 2, Views: 1, Cut: 1}, "is ahead"},
		model.OldView:   {model.Config{Clients: []model.Client{viewer, lister}, Lag: 2, Views: 1, Cut: 1}, "for ever"},
		model.Unwatched: {model.Config{Clients: []model.Client{lister, lister}, Lag: 1, Admin: 1}, "was gone when it looked"},
		model.Forgetful: {model.Config{Clients: []model.Client{lister, lister}, Lag: 2, Admin: 1, Cut: 1}, "was gone when it looked"},
		model.Several:   {model.Config{Clients: []model.Client{lister, lister, lister}, Lag: 1, GiveUp: 1}, "is ahead"},
		model.Overtaken: {model.Config{Clients: []model.Client{lister, lister}, Lag: 1, Writers: true}, "is ahead"},
		model.Unread:    {model.Config{Clients: []model.Client{viewer, secret}, Lag: 2, Views: 1}, "for ever"},
	} {
		t.Run(string(weaken), func(t *testing.T) {
			c.world.Weaken = weaken
			r := model.Explore(&c.world, 5_000_000, *limit)
			t.Log(r)
			require.Contains(t, r.Bad, c.bad)
		})
	}
}
