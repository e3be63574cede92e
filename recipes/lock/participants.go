package lock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock/internal/queueview"
)

// Participant is a holder or a waiter.
type Participant struct {
	Path    string    // of the node
	Holds   bool      // by what the list showed; others wait
	Data    []byte    // of the node: "host:pid" without [WithData]
	Session int64     // that the node belongs to
	Token   int64     // the fencing token. A downgraded reader's is higher than what its FencingToken returns
	Since   time.Time // when the node was created, by the server's clock
}

// Participants lists holders and waiters in the order of the queue, as the client's server knows them. It creates no node.
// Nodes that are deleted meanwhile are left out; a missing path has none. It lists the path and reads each node. While the
// client has a view of the path, it reads only nodes that it has not read since they were created or written to. Errors are
// [ErrSequenceExhausted], zk.ErrNoAuth for a node that we may not read, and those of other operations of the client.
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
	leases, _ := q.leases()
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

// children returns the children that belong to this lock, in the driver's order: from the view if it can say, or from a list.
// Some of them may be gone.
func (q *Queue) children(ctx context.Context, v *queueview.View) ([]string, error) {
	if v != nil {
		if err := v.Await(ctx); err != nil {
			return nil, err
		}
		if children, ok, err := v.Names(q.order); ok {
			return children, err
		}
	}
	return q.list(ctx)
}

// node returns the data of a child: as the view knows them, if it does.
func (q *Queue) node(ctx context.Context, v *queueview.View, child string) (*queueview.Node, error) {
	get := func() (*queueview.Node, error) {
		data, stat, err := q.client.Get(ctx, framework.Join(q.base, child))
		if err != nil {
			return nil, err
		}
		return &queueview.Node{Data: data, Stat: *stat}, nil
	}
	if v == nil {
		return get()
	}
	return v.Node(child, get)
}
