package lock

import (
	"cmp"
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/lock/internal/view"
)

func init() {
	locking.Filled = locking.Lock[*Queue, *Hold, *Group, Participant, Option]{
		With:    with,
		Acquire: func(ctx context.Context, q *Queue, how locking.How) (*Hold, error) { return q.acquire(ctx, how) },
		Again:   again,
		HeldIn:  func(ctx context.Context, q *Queue) *Hold { return q.heldIn(ctx) },
		Refuse: func(ctx context.Context, q *Queue, held error, wayOut string) error {
			return q.refuseNested(ctx, held, wayOut)
		},
		Without:      without,
		Reenters:     func(q *Queue) bool { return q.cfg.nesting == reenters },
		MaxLeases:    func(q *Queue) int { return q.maxLeases() },
		SetMaxLeases: func(q *Queue, n int) { q.setMaxLeases(n) },
		Observe:      observe,
		Leave:        leave,
		Group:        newGroup,
		Conclude: func(h *Hold, ops func(refused *framework.MultiError) ([]any, error)) ([]zk.MultiResponse, error) {
			return h.conclude(ops)
		},
		Describe:       func(q *Queue) (data []byte, keeps bool) { return q.cfg.data, q.keeps() },
		Client:         func(h *Hold) *framework.Client { return h.term.node.queue.client },
		ClientOf:       func(p Participant) *framework.Client { return p.client },
		Pin:            func(h *Hold) { h.term.pin() },
		ExpectDeletion: func(h *Hold, cause error) { h.term.expectDeletion(cause) },
		Sort: func(children []string, name string) ([]string, error) {
			return view.Sort(order{driver: Standard{}, name: name}, children)
		},
	}
}

// with returns the option with the settings of a recipe.
func with(s locking.Settings[*Queue]) Option {
	return Option(opt.Set(func(c *config) {
		if s.Data != nil {
			c.data, c.dataFunc = s.Data, nil
		}
		if s.MaxLeases != 0 {
			c.maxLeases = s.MaxLeases
		}
		if s.SuspensionEndsNothing {
			c.policy = connstate.LostEndsHold
		}
		s.Noun = cmp.Or(s.Noun, c.recipe.Noun)
		s.Numbered = s.Numbered || c.recipe.Numbered
		c.recipe = s
	}))
}

// again returns another hold of the lease of h, with the same values: see locking.Lock.
func again(h *Hold) (*Hold, error) {
	a, err := h.again(h.ctx)
	if err != nil {
		return nil, err
	}
	a.asked, a.traced = h.asked, h.traced
	return a, nil
}
