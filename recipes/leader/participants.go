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
		ps[i] = participant(n, i == 0)
	}
	return ps, nil
}

func participant(n queue.Participant, leads bool) Participant {
	return Participant{ID: string(n.Data), Leads: leads, Path: n.Path, Session: n.Session, Token: n.Token, Since: n.Since}
}

// Leader returns who leads, without taking part in the election. The error is [ErrNoLeader] if nobody does, also if the path is
// missing, and [lock.ErrSequenceExhausted]. A server that is behind the others may show an earlier leader; [Term.Guard] is how a
// leader proves itself.
func (e *Election) Leader(ctx context.Context) (Participant, error) {
	p, err := e.find(ctx, e.client.Get)
	if err == nil && !p.Leads {
		err = ErrNoLeader
	}
	return p, e.opError("leader", err)
}

// find reads who leads: the zero Participant if nobody does.
//
// The first node that can be read leads: nodes ahead of it were gone before, and none can come in ahead.
func (e *Election) find(ctx context.Context, read func(context.Context, string) ([]byte, *zk.Stat, error)) (Participant, error) {
	for {
		children, _, err := e.client.Children(ctx, e.path)
		first, err := e.first(children, err)
		if err != nil || first == "" {
			return Participant{}, err
		}
		data, stat, err := read(ctx, first)
		switch {
		case errors.Is(err, zk.ErrNoNode): // it has gone since
		case err != nil:
			return Participant{}, err
		default:
			return participant(queue.ParticipantOf(first, data, stat), true), nil
		}
	}
}

// first returns the path of the first candidate in the order of the queue. It is empty if there is none, also if the path is missing. err
// is that of the list.
func (e *Election) first(children []string, err error) (string, error) {
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return "", err
	}
	candidates, err := queue.Sort(children, e.name)
	if err != nil || len(candidates) == 0 {
		return "", err
	}
	return framework.Join(e.path, candidates[0]), nil
}
