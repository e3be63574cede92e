package leader

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
)

// Participant is a leader or a candidate.
type Participant struct {
	ID        string    // the id set by WithID
	Leads     bool      // true for the leader at the time of the read
	Path      string    // path of the node
	SessionID int64     // session that owns the node
	Token     int64     // the fencing token of its term
	Since     time.Time // time at which the candidate joined, by the server's clock
}

// Participants returns the leader and the candidates, in the order of the queue. Nodes that are
// deleted during the call are omitted, and a lagging server may show an older state. If the path
// does not exist, the list is empty.
//
// Errors are
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to read a node.
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

func participant(n lock.Participant, leads bool) Participant {
	return Participant{ID: string(n.Data), Leads: leads, Path: n.Path, SessionID: n.SessionID, Token: n.Token, Since: n.Since}
}

// Leader returns the leader. A lagging server may show an earlier one: a leader proves its term by
// [Term.Guard].
//
// Errors are
//   - [ErrNoLeader] if the election has no candidate, even if the path does not exist;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the server's errors, such as zk.ErrNoAuth.
func (e *Election) Leader(ctx context.Context) (Participant, error) {
	p, err := e.find(ctx, e.client, e.client.Get)
	if err == nil && !p.Leads {
		err = ErrNoLeader
	}
	return p, e.opError("leader", err)
}

// find reads the leader: the zero Participant if there is none.
//
// The first node that can be read leads: nodes ahead of it were deleted before, and none can be
// created ahead.
func (e *Election) find(
	ctx context.Context, client *framework.Client, read func(context.Context, string) ([]byte, *zk.Stat, error),
) (Participant, error) {
	for {
		children, _, err := client.Children(ctx, e.path)
		first, err := e.first(children, err)
		if err != nil || first == "" {
			return Participant{}, err
		}
		data, stat, err := read(ctx, first)
		switch {
		case errors.Is(err, zk.ErrNoNode): // it was deleted during the call
		case err != nil:
			return Participant{}, err
		default:
			return participant(lock.Participant{
				Path: first, Data: data, SessionID: stat.EphemeralOwner, Token: stat.Czxid, Since: time.UnixMilli(stat.Ctime),
			}, true), nil
		}
	}
}

// first returns the path of the first candidate in the order of the queue, or "", even if the path
// is missing. err is the list's.
func (e *Election) first(children []string, err error) (string, error) {
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return "", err
	}
	candidates, err := inside.Sort(children, e.name)
	if err != nil || len(candidates) == 0 {
		return "", err
	}
	return framework.Join(e.path, candidates[0]), nil
}
