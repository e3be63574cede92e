package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/queue/view"
)

// Participant is a lock.Participant. Both are aliases, so that each page shows the fields.
type Participant = struct {
	Path    string
	Holds   bool
	Data    []byte
	Session int64
	Token   int64
	Since   time.Time
}

// Participants is that of lock.Queue.
func (q *Queue) Participants(ctx context.Context) ([]Participant, error) {
	ps, err := q.participants(ctx)
	return ps, q.opError("participants", err)
}

func (q *Queue) participants(ctx context.Context) ([]Participant, error) {
	v := q.views.Lookup(q.client, q.base)
	children, err := q.children(ctx, v)
	if err != nil {
		return nil, err
	}
	leases := q.MaxLeases()
	var ps []Participant
	for _, child := range children {
		path := framework.Join(q.base, child)
		node, err := q.node(ctx, v, child)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		turn, err := q.driver.Decide(children, child, leases)
		if err != nil {
			return nil, err
		}
		ps = append(ps, Participant{
			Path:    path,
			Holds:   turn.Held,
			Data:    slices.Clone(node.Data),
			Session: node.Stat.EphemeralOwner,
			Token:   node.Stat.Czxid,
			Since:   time.UnixMilli(node.Stat.Ctime),
		})
	}
	return ps, nil
}

// node returns the data of a child: as the view knows them, if it does.
func (q *Queue) node(ctx context.Context, v *view.View, child string) (*view.Node, error) {
	get := func() (*view.Node, error) {
		data, stat, err := q.client.Get(ctx, framework.Join(q.base, child))
		if err != nil {
			return nil, err
		}
		return &view.Node{Data: data, Stat: *stat}, nil
	}
	if v == nil {
		return get()
	}
	return v.Node(child, get)
}
