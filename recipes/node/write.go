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

// hold is for the node that is there and ours: it gets its data, and its touch.
func (k *keeper) hold(ctx context.Context) error {
	stat := k.view.stat
	if k.stale() {
		return errAgain // perhaps it is another's by now
	}
	if stat.Czxid != k.czxid {
		k.czxid, k.written, k.touched = stat.Czxid, k.made, time.Now()
		k.mzxid = stat.Czxid
		if k.made.number > 0 {
			k.taken = k.made
		}
	}
	k.made, k.sent, k.unsure = content{}, true, false
	trouble := k.write(ctx)
	// Also if the server refuses what is to be written: the node is kept with what was written before.
	if trouble == nil || refusal(trouble) && !errors.Is(trouble, errAgain) && k.written.number > 0 {
		if err := k.touch(ctx); trouble == nil || errors.Is(err, errAgain) {
			trouble = err
		}
	}
	if errors.Is(trouble, errAgain) || k.written.number == 0 || k.view.watch == nil || !k.lives() {
		return trouble
	}
	err := k.appear(trouble)
	if errors.Is(err, framework.ErrSessionLost) && k.lives() {
		// The last word of the leader is older than the session timeout: this process was slow. A write is its next
		// word. Nobody asks for one as long as nobody depends on the session. If the connection has just come to life again
		// the write proves nothing yet, and it is tried again after a pause.
		if err := k.catchUp(ctx); err != nil {
			return err
		}
		err = k.appear(trouble)
	}
	if err != nil {
		return err
	}
	return trouble
}

// attend does what may take as long as the session lives, and meanwhile believes an event that the node was deleted.
func (k *keeper) attend(do func() error) error {
	watch, answered, attended := k.view.watch, make(chan struct{}), make(chan struct{})
	go func() { // ends with do
		defer close(attended)
		select {
		case <-watch.Done():
			if watch.Event().Type == zk.EventNodeDeleted {
				k.deleted()
			}
		case <-answered:
		}
	}()
	err := do()
	close(answered)
	<-attended
	return err
}

// write brings the data up to date.
func (k *keeper) write(ctx context.Context) error {
	want, trouble := k.possible()
	if want.number == k.written.number {
		return trouble
	}
	// With its version, so that data are not written to a node that has come in its place, unless that one has the same
	// version. After a lost connection the node is looked at before the next try.
	once := clientapi.WithHints(ctx, clientapi.Hints{Once: true})
	var stat *zk.Stat
	err := k.attend(func() (err error) {
		stat, err = k.client.Set(once, k.path, want.data, k.view.stat.Version)
		return err
	})
	err = k.tried(want, err)
	switch {
	case err == nil && stat.Czxid != k.czxid:
		k.view = view{}
		if !k.ours(stat) {
			k.client.Logger().Error("another's node was overwritten, after ours was deleted", "path", k.path, "reason", takenBy(stat))
		}
		return errAgain
	case err == nil:
		k.written, k.taken, k.mzxid, k.view.stat = want, want, stat.Mzxid, stat
		return trouble
	case errors.Is(err, zk.ErrNoNode):
		k.gone()
		return errAgain
	case errors.Is(err, zk.ErrBadVersion):
		k.view = view{} // also after a reply of ours that was lost
		return errAgain
	case retry.Retryable(err):
		k.view = view{}
	case refusal(err):
		k.set(func() { // Err must not be nil any more when Set returns
			if want.number >= k.refused.number {
				k.refused = refused{want.number, err}
			}
			if k.present {
				k.err = err
			}
		})
	}
	return err
}

// refusal reports whether err is the answer of a server that was reached.
func refusal(err error) bool {
	return err != nil && !retry.Retryable(err) && !errors.Is(err, context.Canceled) && !inDoubt(err)
}

// inDoubt reports whether err says that the connection is in trouble.
func inDoubt(err error) bool {
	return errors.Is(err, framework.ErrSuspended) || errors.Is(err, framework.ErrSessionLost) || errors.Is(err, framework.ErrClosed)
}
