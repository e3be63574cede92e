package queue

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
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
	children, err := q.children(ctx, q.views.Lookup(q.client, q.base))
	if err != nil {
		return nil, err
	}
	all, errs := make([]Participant, len(children)), make([]error, len(children))
	var wg sync.WaitGroup
	for i, child := range children {
		wg.Go(func() { all[i], errs[i] = q.participant(ctx, child) }) // ends with the answer
	}
	wg.Wait()
	leases := q.MaxLeases()
	var found []Participant
	for i, p := range all {
		if errors.Is(errs[i], zk.ErrNoNode) {
			continue
		}
		turn, err := q.driver.Decide(children, children[i], leases)
		if err = cmp.Or(errs[i], err); err != nil {
			return nil, err
		}
		p.Holds = turn.Held
		found = append(found, p)
	}
	return found, nil
}

// participant reads the node of a child.
func (q *Queue) participant(ctx context.Context, child string) (Participant, error) {
	path := framework.Join(q.base, child)
	data, stat, err := q.client.Get(ctx, path)
	if err != nil {
		return Participant{}, err
	}
	return ParticipantOf(path, data, stat), nil
}

// ParticipantOf is the participant with a node. Who holds is not known from that.
func ParticipantOf(path string, data []byte, stat *zk.Stat) Participant {
	return Participant{
		Path:    path,
		Data:    data,
		Session: stat.EphemeralOwner,
		Token:   stat.Czxid,
		Since:   time.UnixMilli(stat.Ctime),
	}
}
