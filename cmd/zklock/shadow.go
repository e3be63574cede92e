package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
)

// shadows are what outlives a lock that was lost: a node for each command that runs, at
//
//	<path>.zklock/<name of the lock's node>
//
// which is not ephemeral. It goes when the command has ended. If the servers end a session by force, the
// next in the queue holds at that very moment, while a command may need seconds to end. So a holder first
// waits for the shadows of those whose lock is gone, and no longer than they can last: who makes one says in it
// by when the command will be dead, also if no server can be reached.
//
// Only zklock looks at them. To others the queue below the lock's path is what it always was.
type shadows struct {
	client    *framework.Client
	path, dir string // the lock's, and that of the shadows
}

// shadow is one of them. A nil shadow is none.
type shadow struct {
	client *framework.Client
	path   string
}

// shadowText is what is in a shadow's node.
type shadowText struct {
	Node     string `json:"node"`   // the lock's, as its holder calls it
	Below    string `json:"below"`  // the same below the lock's path, which differs for those with another namespace
	Holder   string `json:"holder"` // its data, for people
	WithinMS int64  `json:"gone_within_ms"`
}

// shadowMargin is added to the time within which a command is dead: for a machine that is slow to kill.
const shadowMargin = time.Second

func shadowsOf(client *framework.Client, path string) *shadows {
	return &shadows{client, path, path + ".zklock"}
}

// cast makes the shadow of a hold. The command, once started, is dead within the session's timeout after the
// servers have given the lock away: the client gives the session up early enough for that.
func (s *shadows) cast(ctx context.Context, hold *lock.Hold) (*shadow, error) {
	within := hold.Session().Timeout() + shadowMargin
	text, err := json.Marshal(shadowText{
		Node:     hold.Path(),
		Below:    strings.TrimPrefix(hold.Path(), s.path+"/"),
		Holder:   string(s.client.DefaultData()),
		WithinMS: within.Milliseconds(),
	})
	if err != nil {
		return nil, err
	}
	_, name := framework.Split(hold.Path())
	made := &shadow{s.client, framework.Join(s.dir, name)}
	_, err = s.client.Create(ctx, made.path, text, framework.ContainerParents())
	if err != nil && !errors.Is(err, zk.ErrNodeExists) { // made by a try of ours whose answer was lost
		made.remove(hold) // it may have been made, also when a signal has ended the wait for the answer
		return nil, err
	}
	return made, nil
}

// How long a shadow that cannot be removed may hold up the end of zklock. Then it stays, and the next holder
// waits for nothing.
const (
	removeTimeout = 5 * time.Second
	lostTimeout   = time.Second // when there is no connection, and no lock to be kept
)

// remove removes the shadow of a hold whose command has ended. Whoever has lost the lock is not kept
// waiting for servers that do not answer.
func (s *shadow) remove(hold *lock.Hold) {
	if s == nil {
		return
	}
	timeout := removeTimeout
	if hold.Err() != nil && !isConnected(s.client) {
		timeout = lostTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, _ = s.client.DeleteGuaranteed(ctx, s.path)
}

func isConnected(client *framework.Client) bool {
	return slices.Contains([]connstate.State{connstate.Connected, connstate.Reconnected}, client.State())
}

// stillRuns means that a command has not ended whose lock was lost.
type stillRuns struct{ holder string }

func (e *stillRuns) Error() string {
	return fmt.Sprintf("the command of %s, which lost it, has not ended yet", e.holder)
}

// awaitOthers returns when no command runs any more whose lock was lost before hold began. If patient ends
// first, the error is a *stillRuns.
func (s *shadows) awaitOthers(ctx, patient context.Context, hold *lock.Hold, t *tool) error {
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(hold.Context(), func() { cancel(hold.Err()) })()
	names, _, err := s.client.Children(ctx, s.dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	for _, name := range names {
		if err := s.await(ctx, patient, t, framework.Join(s.dir, name), hold, began); err != nil {
			return err
		}
	}
	return nil
}

// await returns when a shadow is gone or has lasted as long as it can, counted from when somebody held first and saw it: us, or one who did not
// wait for so long.
func (s *shadows) await(ctx, patient context.Context, t *tool, path string, hold *lock.Hold, held time.Time) error {
	said := false
	for {
		text, err := s.read(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		holds, _, err := s.client.Exists(ctx, text.Node)
		if err != nil || holds {
			return err // whose lock is there shares it with us
		}
		before, err := s.sinceSeen(ctx, path, text, hold)
		if err != nil {
			return err
		}
		left := time.Until(held.Add(time.Duration(text.WithinMS)*time.Millisecond)) - before
		if left <= 0 {
			_, err := s.client.DeleteGuaranteed(ctx, path)
			return err
		}
		if patient.Err() == nil && !said {
			said = true
			t.say("%s lost the lock while its command ran; waiting for that to end, at most %v", text.Holder, left.Round(time.Second))
		}
		timer := time.NewTimer(left)
		select {
		case <-text.watch.Done():
		case <-timer.C:
		case <-patient.Done():
			err = cmp.Or[error](context.Cause(ctx), &stillRuns{text.Holder})
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		timer.Stop()
		if err != nil {
			return err
		}
	}
}

// sinceSeen is how long before our own node was made somebody saw first that the lock was given away, by the servers' clock: then the shadow's
// node was written for the first time after it was made. Without that we do it now, for those who come later if we do not wait.
func (s *shadows) sinceSeen(ctx context.Context, path string, text shadowNode, hold *lock.Hold) (time.Duration, error) {
	if text.stat.Version == 0 {
		_, err := s.client.Set(ctx, path, text.data, 0)
		if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
			err = nil // another one has, or it is gone: the watch has fired
		}
		return 0, err
	}
	found, own, err := s.client.Exists(ctx, hold.Path())
	if err != nil || !found { // we have lost the lock, which ends ctx
		return 0, err
	}
	return max(0, time.Duration(own.Ctime-text.stat.Mtime)*time.Millisecond), nil
}

// shadowNode is a shadow's node as it was read, with a watch on it.
type shadowNode struct {
	shadowText
	data  []byte
	stat  *zk.Stat
	watch *framework.Watch
}

// read returns what is in a shadow's node.
func (s *shadows) read(ctx context.Context, path string) (n shadowNode, err error) {
	if n.data, n.stat, n.watch, err = s.client.GetW(ctx, path); err != nil {
		return n, err
	}
	err = json.Unmarshal(n.data, &n.shadowText)
	if n.Below != "" { // earlier versions leave it out
		n.Node = s.path + "/" + n.Below
	}
	if err != nil || framework.ValidatePath(n.Node) != nil {
		return n, fmt.Errorf("%s is not one of zklock's nodes: delete it", path)
	}
	n.Holder = printable(n.Holder)
	return n, nil
}
