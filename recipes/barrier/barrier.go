// Package barrier makes processes wait for each other. [Barrier] is Curator's DistributedBarrier: while it is set, all wait.
// [Double] is Curator's DistributedDoubleBarrier: n processes begin together and end together. Java and Go share a path.
//
// # On the wire
//
// A Barrier is the persistent node <path>. A member of a Double is an ephemeral node <path>/<uuid>, and <path>/ready, which
// is persistent, lets everybody in. Whoever finds n members after it has created its own node creates ready. Members leave in the
// order of Java's: those that are not the first by name delete their nodes, and the first deletes its own when it is alone.
// Then everybody deletes ready.
//
// # What it promises
//
//   - Wait and Enter return nil only when the barrier was open, or complete, during the call: never because of a timeout, a lost
//     connection or a server that is behind.
//   - After an Enter or Leave that failed, the client removes our node in the background, also if the server carries out the create
//     request later. One process never counts twice, also when its session ends while it waits.
//
// # What it cannot promise
//
// A process that has crashed counts until the servers end its session. On a ClickHouse Keeper, which keeps the old session beside
// the new one, the same goes for a create that an old connection has sent, and that is carried out after the deletion. If all members
// of a Double crash while they are inside, or give up while ready is being created, ready stays. The next Enter deletes it, but one
// of Java's passes by it: if there are any, use a new path for each run.
package barrier

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/retry"
)

// Barrier is a barrier at one path that makes everybody wait while it is set. It does not belong to the session that
// has set it. It has no state of its own, and is safe for concurrent use.
type Barrier struct {
	client *framework.Client
	path   string
}

// New makes a barrier at path. Nothing is sent. Errors are [framework.ErrBadPath] and [framework.ErrBadArgument].
func New(client *framework.Client, path string) (*Barrier, error) {
	if err := follow.Check(client, path); err != nil {
		return nil, follow.OpError("barrier", path, err)
	}
	return &Barrier{client, path}, nil
}

// Path is the path of the barrier.
func (b *Barrier) Path() string { return b.path }

// Set sets the barrier. It is no error if it is set already. Errors are those of [framework.Client.Create], and
// [framework.ErrSessionLost]; if [retry.Unknown] is true of one, the barrier may be set, or may be set later, until the servers have
// ended the session.
func (b *Barrier) Set(ctx context.Context) error {
	err := b.inOneSession(ctx, func(ctx context.Context) error {
		_, err := b.client.Create(ctx, b.path, nil, framework.ContainerParents())
		return err
	})
	if errors.Is(err, zk.ErrNodeExists) {
		err = nil
	}
	return follow.OpError("set barrier", b.path, err)
}

// Remove removes the barrier, and everybody goes on. found is false if it was not set, unless this call may have removed it.
// After an error the barrier may be there still: nothing goes on in the background, since that could remove a barrier that
// somebody sets later. Errors are those of [framework.Client.Delete], and [framework.ErrSessionLost]; if [retry.Unknown] is
// true of one, the barrier may also be removed later, until the servers have ended the session.
func (b *Barrier) Remove(ctx context.Context) (found bool, err error) {
	maybe := false
	err = b.inOneSession(ctx, func(ctx context.Context) error {
		found, err = b.client.DeleteIfExists(ctx, b.path, -1)
		found = found || maybe
		maybe = maybe || retry.Unknown(err)
		return err
	})
	return found, follow.OpError("remove barrier", b.path, err)
}

// inOneSession calls write with a context of a session, and again in the next one if nothing of the first can arrive any more: nothing was
// sent, or the servers have ended that session. Otherwise a request of it may be carried out later, after others of the next session.
func (b *Barrier) inOneSession(ctx context.Context, write func(ctx context.Context) error) error {
	for {
		session, err := b.client.Session(framework.InSession(ctx, nil)) // whatever session ctx is of
		if err == nil {
			err = write(framework.InSession(ctx, session))
		}
		if ctx.Err() != nil || !errors.Is(err, framework.ErrSessionLost) || retry.Unknown(err) && !errors.Is(err, zk.ErrSessionExpired) {
			return err
		}
	}
}

// Wait returns when the barrier is not set, which may be so at once, or was removed during the call, also if it is set again. It sees
// a barrier that was set before the call, whichever server answers. It waits as long as ctx, also while no server can be reached. Then
// the error is that of ctx, and wraps zk.ErrNoServer if there is no connection. Other errors are [framework.ErrClosed], and answers such as zk.ErrNoAuth.
func (b *Barrier) Wait(ctx context.Context) error {
	var first int64 // the barrier that is waited for; 0: none was seen yet
	err := follow.Reads(ctx, b.client, func(ctx context.Context, _ engine.Link) (<-chan struct{}, error) {
		found, stat, watch, err := b.client.ExistsW(ctx, b.path)
		if err != nil || !found || first != 0 && stat.Czxid != first {
			return nil, err
		}
		first = stat.Czxid
		return watch.Done(), nil
	})
	return follow.OpError("wait for barrier", b.path, err)
}
