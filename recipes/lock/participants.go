package lock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// Participant is a holder or a waiter.
type Participant struct {
	Path    string    // of the node
	Holds   bool      // by what the list showed; others wait
	Data    []byte    // of the node: "host:pid" unless told otherwise
	Session int64     // that the node belongs to
	Token   int64     // the fencing token
	Since   time.Time // when the node was made, by the server's clock
}

// Participants lists holders and waiters in the order of the queue. It creates no node. Nodes that are deleted
// meanwhile are left out; a missing path has none.
func (q *Queue) Participants(ctx context.Context) ([]Participant, error) {
	ps, err := q.participants(ctx)
	return ps, q.opError("participants", err)
}

func (q *Queue) participants(ctx context.Context) ([]Participant, error) {
	children, err := q.list(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	leases, _ := q.leases()
	var ps []Participant
	for _, child := range children {
		path := framework.Join(q.base, child)
		data, stat, err := q.client.Get(ctx, path)
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
			Data:    data,
			Session: stat.EphemeralOwner,
			Token:   stat.Czxid,
			Since:   time.UnixMilli(stat.Ctime),
		})
	}
	return ps, nil
}
