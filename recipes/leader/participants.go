package leader

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/queue"
)

// Participant is somebody who leads or waits to.
type Participant struct {
	ID      string    // see WithID
	Leads   bool      // by what the server showed; others wait
	Path    string    // of the node
	Session int64     // that the node belongs to
	Token   int64     // the fencing token of its term
	Since   time.Time // when it joined, by the server's clock
}

// Participants lists who leads and who waits, in the order of the queue, without taking part in it. Nodes that are deleted
// meanwhile are left out, and the first of the others leads. A missing path has none. A server that is behind the others may show
// an older state. Errors are those of [lock.Queue.Participants].
func (e *Election) Participants(ctx context.Context) ([]Participant, error) {
	nodes, err := e.queue.Participants(ctx)
	if err != nil {
		return nil, e.opError("participants", err)
	}
	ps := make([]Participant, len(nodes))
	for i, n := range nodes {
		ps[i] = Participant{ID: string(n.Data), Leads: i == 0, Path: n.Path, Session: n.Session, Token: n.Token, Since: n.Since}
	}
	return ps, nil
}

// Leader returns who leads, without taking part in the election. The error is [ErrNoLeader] if nobody does, also if the path is
// missing, and [lock.ErrSequenceExhausted]. A server that is behind the others may show an earlier leader; [Term.Guard] is how a
// leader proves itself.
func (e *Election) Leader(ctx context.Context) (Participant, error) {
	for {
		children, _, err := e.client.Children(ctx, e.path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return Participant{}, e.opError("leader", err)
		}
		first, err := e.first(children)
		if err == nil && first == "" {
			err = ErrNoLeader
		}
		if err != nil {
			return Participant{}, e.opError("leader", err)
		}
		data, stat, err := e.client.Get(ctx, first)
		if !errors.Is(err, zk.ErrNoNode) { // it has gone since: look again
			return leading(first, data, stat), e.opError("leader", err)
		}
	}
}

// leading is the participant with the first node, or the zero Participant if that could not be read.
func leading(path string, data []byte, stat *zk.Stat) Participant {
	if stat == nil {
		return Participant{}
	}
	return Participant{
		ID:      string(data),
		Leads:   true,
		Path:    path,
		Session: stat.EphemeralOwner,
		Token:   stat.Czxid,
		Since:   time.UnixMilli(stat.Ctime),
	}
}

// first returns the path of the candidate that leads: the first in the order of the queue. It is empty if none of children is a
// candidate.
func (e *Election) first(children []string) (path string, err error) {
	candidates, err := queue.Sort(children, e.name)
	if err != nil || len(candidates) == 0 {
		return "", err
	}
	return framework.Join(e.path, candidates[0]), nil
}
