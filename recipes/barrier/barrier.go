// Package barrier lets processes wait for each other. [Barrier] is Curator's DistributedBarrier: it
// blocks every waiter until it is removed.
//
//	b, err := barrier.New(client, "/maintenance")
//	if err != nil { ... }
//	err = b.Set(ctx)             // in one process
//	found, err := b.Remove(ctx)
//	err = b.Wait(ctx)            // in the others
//
// [Double] is Curator's DistributedDoubleBarrier: n processes start together and finish together.
// Both are compatible with Java on the same path.
//
// # On the wire
//
// A Barrier is the persistent node <path>. A member of a Double is an ephemeral node <path>/<uuid>,
// named as in Java or kazoo.
// The persistent node <path>/ready lets the members in. A member that finds n members after it has
// created its own node creates ready. Members leave in Java's order: the first by name waits until
// it is alone, the others delete their nodes at once. Each member then deletes ready.
//
// # What it promises
//
//   - Wait and Enter return nil only if the barrier was open, or complete, during the call. A
//     timeout, a lost connection and a server that lags behind never open a barrier.
//   - If Enter or Leave fails, the client deletes the member's node in the background.
//   - One process never counts twice: neither if its session expires while it waits, nor if it
//     gives up and enters again. An Enter waits until the nodes of this client's earlier
//     members are deleted, and this client does not count such a node if a server creates it
//     late.
//   - A child with another name than a UUID is not a member. It is logged, since Java counts it: a
//     Java member enters too early, and waits for the child when it leaves.
//   - If another client deletes the node of a waiting member, or the whole barrier, the member
//     creates its node again.
//
// # What it cannot promise
//
// A crashed process counts until its session has expired. A member that gives up counts for other
// clients until its node is deleted. If a server carries out a create of an earlier session after
// that deletion, the node counts for other clients until that session has expired. On a ClickHouse
// Keeper, which keeps the old session beside the new one, this includes a create that an old
// connection has sent.
//
// A member of a Double whose session expires when another member opens the barrier may have been
// counted without knowing. It enters again, and then waits for n members. So give Enter a deadline.
//
// If all members of a Double crash while they are inside, or give up while ready is being created,
// ready stays. The next Enter deletes it, but a Java member passes it. If there are Java members,
// use a new path for each run.
package barrier

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/nocopy"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/recipes/internal/recipe"
	"github.com/gocurator/curator/retry"
)

// Option configures [New] and [NewDouble], which refuse invalid values with
// [framework.ErrBadArgument]. There are none yet.
type Option func(*config) error

type config struct{}

// Barrier blocks its waiters while it is set. It belongs to no session, and is safe for concurrent
// use.
type Barrier struct {
	_ nocopy.Mark

	client *framework.Client
	path   string
}

// New returns the barrier at path. It sends no request.
//
// Errors are
//   - [framework.ErrBadPath] if path is invalid or the root;
//   - [framework.ErrBadArgument] if client is nil, or an option is invalid.
func New(client *framework.Client, path string, opts ...Option) (*Barrier, error) {
	if err := cmp.Or(recipe.Check(client, path), opt.Apply(new(config), opts)); err != nil {
		return nil, operr.New("barrier", path, err)
	}
	return &Barrier{client: client, path: path}, nil
}

// Path returns the path of the barrier.
func (b *Barrier) Path() string { return b.path }

// Set sets the barrier. A barrier that is already set is not an error.
//
// Errors are
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the session expires after the request was sent, or if the
//     client is a view of a lost session: see [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrTooLong] if the client's default data exceed its limit of a request;
//   - the server's errors, such as zk.ErrNoAuth, or zk.ErrNoChildrenForEphemerals if the parent is
//     ephemeral.
//
// If [retry.Unknown] is true of an error, the barrier may be set already, or may still be set until
// the session has expired.
func (b *Barrier) Set(ctx context.Context) error {
	err := b.inOneSession(ctx, func(client *framework.Client) error {
		_, err := client.Create(ctx, b.path, engine.Of(b.client).DefaultData(), framework.ContainerParents())
		return err
	})
	if errors.Is(err, zk.ErrNodeExists) {
		err = nil
	}
	return operr.New("set barrier", b.path, err)
}

// Remove removes the barrier, which unblocks its waiters. It reports whether this call may have
// removed it. A barrier that is not set is not an error.
//
// Errors are
//   - zk.ErrNotEmpty if the barrier's node has children;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the session expires after the request was sent, or if the
//     client is a view of a lost session: see [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed;
//   - the server's other errors, such as zk.ErrNoAuth.
//
// If [retry.Unknown] is true of an error, the barrier may be removed later, until the session has
// expired.
func (b *Barrier) Remove(ctx context.Context) (found bool, err error) {
	maybe := false
	err = b.inOneSession(ctx, func(client *framework.Client) error {
		err := client.Delete(ctx, b.path)
		maybe = maybe || retry.Unknown(err)
		if found = err == nil; errors.Is(err, zk.ErrNoNode) {
			found, err = maybe, nil
		}
		return err
	})
	return found, operr.New("remove barrier", b.path, err)
}

// inOneSession calls write in a session. It calls it again in the next session only if no request
// of the first can still be carried out: none was sent, or that session has expired. Otherwise such
// a request could take effect after the ones of the next session.
func (b *Barrier) inOneSession(ctx context.Context, write func(*framework.Client) error) error {
	for {
		session, err := b.client.Session(ctx)
		if err != nil {
			return err
		}
		err = write(b.client.In(session))
		if ctx.Err() != nil || !errors.Is(err, framework.ErrSessionLost) || retry.Unknown(err) && !errors.Is(err, zk.ErrSessionExpired) {
			return err
		}
	}
}

// Wait blocks until the barrier is not set or ctx is done. It also returns if the barrier was
// removed during the call and set again. While no server can be reached, it keeps waiting.
//
// Errors are
//   - the error of ctx, wrapped with zk.ErrNoServer if the client is not connected;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors that a retry cannot fix, such as zk.ErrNoAuth.
func (b *Barrier) Wait(ctx context.Context) error {
	var first int64 // czxid of the barrier; 0: none was seen yet
	err := recipe.Reads(ctx, b.client, func(ctx context.Context, in *framework.Client, _ engine.Link) (<-chan struct{}, error) {
		found, stat, watch, err := in.ExistsW(ctx, b.path)
		if err != nil || !found || first != 0 && stat.Czxid != first {
			return nil, err
		}
		first = stat.Czxid
		return watch.Done(), nil
	})
	return operr.New("wait for barrier", b.path, err)
}
