package node

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/retry"
)

// leave deletes the node and ends the claim. The error is what the server refuses. The keeper is not to be used after it.
func (k *keeper) leave() error {
	k.release()
	if k.cfg.ttl > 0 || k.path == "" || k.session == nil || !k.answers() {
		k.releaseClaim()
		return nil // there is none, or it goes by itself, or with another Keep
	}
	if k.cfg.persistent {
		return k.leavePersistent()
	}
	defer k.releaseClaim()
	// A session that is over takes its nodes along, whenever they were made.
	ctx := framework.InSession(k.session.Context(), k.session)
	for {
		err := k.removeOwn(ctx)
		switch {
		case err == nil, k.session.Err() != nil:
			return nil
		case errors.Is(err, errAgain):
		case !clientapi.MayPass(err):
			return err
		default:
			k.sleep(k.session, k.pause.NextBackOff())
		}
	}
}

// answers reports whether it is for us to see that no node stays. If another Keep of this client has the claim, it is
// for that one.
func (k *keeper) answers() bool {
	for !k.claimed {
		held, leaving := claims.withdraw(k.key(), k.Node)
		switch {
		case held: // we were given it, with what there is
			k.claimed, k.sent = true, true
			return true
		case !k.mayBeThere():
			return false
		case leaving != nil:
			select {
			case <-leaving:
			case <-k.session.Done():
				return true
			}
			continue
		}
		ok, _, _, _ := claims.take(k.key(), k.Node, false)
		if k.claimed = ok; !ok {
			return false
		}
	}
	return k.mayBeThere()
}

// mayBeThere reports whether there may be a node of ours, now or later.
func (k *keeper) mayBeThere() bool { return k.sent || k.kept || !k.late.IsZero() }

// catchUp has what is read next show all creates and deletions of this session, and of those before it.
func (k *keeper) catchUp(ctx context.Context) error {
	err := k.client.CatchUp(ctx)
	k.unsure = k.unsure && err != nil
	return err
}

// removeOwn deletes the node if it is ours, or that of an earlier session of ours. Nothing is deleted that came in its place, unless
// it has the same version.
func (k *keeper) removeOwn(ctx context.Context) error {
	fresh := k.unsure
	if fresh {
		if err := k.catchUp(ctx); err != nil {
			return err
		}
	}
	found, stat, err := k.client.Exists(ctx, k.path)
	if err != nil || !found {
		return err
	}
	if !k.ours(stat) {
		if !k.former(stat.EphemeralOwner) {
			return nil
		}
		if !fresh { // as in round
			k.unsure = true
			return errAgain
		}
	}
	once := clientapi.WithHints(ctx, clientapi.Hints{Once: true})
	err = k.client.Delete(once, k.path, stat.Version)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case errors.Is(err, zk.ErrBadVersion):
		return errAgain
	case retry.Unknown(err):
		k.unsure = true // if it is gone, the next one there may be another's with the same version
	}
	return err
}

// leavePersistent deletes a node that no session takes along. If that takes longer than a session would last, it goes on in the
// background.
func (k *keeper) leavePersistent() error {
	ctx, cancel := context.WithTimeout(context.Background(), k.session.Timeout())
	defer cancel()
	left := make(chan error)
	go func() { // ends when the node is gone, or with the client
		err := k.removePersistent()
		k.releaseClaim()
		select {
		case left <- err:
		case <-ctx.Done():
			if err != nil && !errors.Is(err, framework.ErrClosed) {
				k.client.Logger().Warn("node stays behind", "path", k.path, "reason", err)
			}
		}
	}()
	select {
	case err := <-left:
		return err
	case <-ctx.Done():
		return nil
	}
}

// removePersistent deletes the node, in whatever session, and returns when that is done and none can come any more, or what the
// server refuses. In each session it claims the path. If another Keep of this client has its node there, it is for that one.
func (k *keeper) removePersistent() error {
	first := k.session
	for {
		began := time.Now()
		session, err := k.client.Session(context.Background())
		if err == nil && session != k.session {
			if k.session == first {
				k.expectLate()
			}
			k.releaseClaim()
			k.session, k.unsure = session, true // its server may know less than the one before
		}
		if err == nil {
			switch mine, _, there, _ := claims.take(k.key(), k.Node, false); {
			case mine:
				err = k.removeOwn(framework.InSession(session.Context(), session))
			case !there:
				err = k.takenByKeep() // perhaps it has not looked yet
			}
		}
		switch {
		case err == nil && !began.Before(k.late):
			return nil
		case err == nil:
			k.sleep(k.session, time.Until(k.late))
			k.unsure = true
		case errors.Is(err, errAgain):
		case !clientapi.MayPass(err) && !errors.Is(err, framework.ErrSessionLost) && !errors.Is(err, ErrTaken):
			return err
		default:
			k.sleep(k.session, k.pause.NextBackOff())
		}
	}
}

// sleep pauses between tries, and ends with the session, unless that was over before.
func (k *keeper) sleep(session *framework.Session, d time.Duration) {
	over := session.Done()
	if session.Err() != nil {
		over = nil
	}
	select {
	case <-time.After(d):
	case <-over:
	}
}
