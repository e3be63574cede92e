package leader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
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

// Participants lists who leads and who waits, in the order of the queue, without taking part in
// it. Nodes that are deleted meanwhile are left out, and the first of the others leads. A missing path has
// none. A server that is behind the others may show an older state. Errors are those of
// [lock.Queue.Participants].
func (e *Election) Participants(ctx context.Context) ([]Participant, error) {
	nodes, err := e.queue.Participants(ctx)
	if err != nil {
		return nil, err
	}
	ps := make([]Participant, len(nodes))
	for i, n := range nodes {
		ps[i] = Participant{ID: string(n.Data), Leads: i == 0, Path: n.Path, Session: n.Session, Token: n.Token, Since: n.Since}
	}
	return ps, nil
}

// Leader returns who leads, without taking part in the election. The error is [ErrNoLeader] if nobody
// does, also if the path is missing, and [lock.ErrSequenceExhausted]. A server that is behind the others may
// show an earlier leader; [Term.Guard] is how a leader proves itself.
func (e *Election) Leader(ctx context.Context) (Participant, error) {
	for {
		children, _, err := e.client.Children(ctx, e.path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return Participant{}, fmt.Errorf("leader: %w", err)
		}
		names, err := e.candidates(children)
		if err == nil && len(names) == 0 {
			err = ErrNoLeader
		}
		if err != nil {
			return Participant{}, fmt.Errorf("leader of %s: %w", e.path, err)
		}
		for _, name := range names {
			path := framework.Join(e.path, name)
			data, stat, err := e.client.Get(ctx, path)
			switch {
			case err == nil:
				return leading(path, data, stat), nil
			case !errors.Is(err, zk.ErrNoNode):
				return Participant{}, fmt.Errorf("leader: %w", err)
			}
		}
		// All have gone since the list was made; others may have come.
	}
}

// leading is the participant whose node is the first that could be read.
func leading(path string, data []byte, stat *zk.Stat) Participant {
	return Participant{
		ID:      string(data),
		Leads:   true,
		Path:    path,
		Session: stat.EphemeralOwner,
		Token:   stat.Czxid,
		Since:   time.UnixMilli(stat.Ctime),
	}
}

// candidates returns those of all children that belong to the election, in the order of the queue.
func (e *Election) candidates(children []string) ([]string, error) {
	type entry struct{ key, name string }
	var entries []entry
	for _, child := range children {
		key, ours := lock.Standard{}.SortKey(child, e.name)
		if !ours {
			continue
		}
		if n, _ := lock.Sequence(child, e.name); n < 0 || n == math.MaxInt32 {
			return nil, lock.ErrSequenceExhausted
		}
		entries = append(entries, entry{key, child})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if c := strings.Compare(a.key, b.key); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
	}
	return names, nil
}
