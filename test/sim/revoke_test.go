package sim

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
)

// revokeMessage is what package revocable writes.
const revokeMessage = "__REVOKE__"

// ask has a client ask a holder to release, in one of the ways of package revocable, or by hand. If
// the message is written the holder must know after a while, and if its node is deleted, too.
func (w *world) ask(f fault, h *held) bool {
	client := w.clients[f.Target%len(w.clients)].client
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	asked, forced := false, false
	var err error
	switch f.N {
	case 0:
		return w.revoke(h)
	case 1:
		err = revocable.Revoke(ctx, client, h.node)
		asked = err == nil
	case 2:
		w.monitor.delete(h.node)
		err = revocable.Revoke(ctx, client, h.node, revocable.WithForce(time.Duration(f.Target)*5*time.Millisecond))
		forced = err == nil
		asked = forced
	default:
		err = w.askSome(ctx, f, client, h)
		leader, none := w.cluster.Leader()
		if none != nil {
			return false
		}
		data, gone := leader.Get(h.node)
		asked = gone == nil && string(data) == revokeMessage
	}
	if err != nil {
		w.monitor.count("not asked to release: " + reason(err))
		return false
	}
	if asked && !h.ends(notifiedWithin(h.timeout)) {
		w.monitor.fail("not notified", "%s was not notified of the message to %s", h.who, h.node)
	}
	if !forced {
		return asked
	}
	if !rest(notifiedWithin(h.timeout), h.ctx.Done(), nil) {
		w.monitor.fail("not notified", "%s does not know that %s was deleted, since it was asked to release", h.who, h.node)
	}
	return true
}

// askSome asks all holders, all participants, or all that are ahead of a participant.
func (w *world) askSome(ctx context.Context, f fault, client *framework.Client, h *held) error {
	p, err := w.participants(client)
	if err != nil {
		return err
	}
	if f.Target%3 == 0 {
		_, err = revocable.RevokeAll(ctx, p)
		return err
	}
	all, err := p.Participants(ctx)
	if f.Target%3 == 2 && len(all) > 0 {
		all = all[:len(all)-1]
	}
	for _, one := range all {
		if failed := revocable.Revoke(ctx, client, one.Path); !errors.Is(failed, zk.ErrNoNode) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// participants is the contenders' lock as another client sees it.
func (w *world) participants(client *framework.Client) (revocable.Participants, error) {
	switch w.Recipe {
	case "rwlock":
		return rwlock.New(client, lockPath)
	case "semaphore":
		return semaphore.New(client, lockPath, leases)
	}
	return mutex.New(client, w.queue())
}
