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

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/recipes/lock"
)

// shadows are the persistent nodes of running commands, at
//
//	<path>.zklock/<name of the lock's node>
//
// A shadow outlives a lost lock, and is deleted when the command has exited. If an operator expires
// a session, the next client in the queue holds at once, while the command may need seconds to
// exit. So a holder first waits for the shadows of deleted locks. It waits at most for the lifetime
// of a shadow, which states how long its command can run, even if no server can be reached.
//
// Only zklock reads shadows. Other clients see the queue of any lock below the path.
type shadows struct {
	client    *framework.Client
	path, dir string // the paths of the lock and of the shadows
}

// shadow is the node of one running command. A nil *shadow has no node.
type shadow struct {
	client *framework.Client
	path   string
}

// shadowText is the content of a shadow's node.
type shadowText struct {
	Node     string `json:"node"`   // the lock's node, in its holder's namespace
	Below    string `json:"below"`  // the same node relative to the lock's path
	Holder   string `json:"holder"` // the lock's data, for people
	WithinMS int64  `json:"gone_within_ms"`
}

// shadowMargin is added to the lifetime of a command, for a machine that is slow to kill.
const shadowMargin = time.Second

// shadowSuffix is the end of the name of the node with a lock's shadows.
const shadowSuffix = ".zklock"

func shadowsOf(client *framework.Client, path string) *shadows {
	return &shadows{client, path, path + shadowSuffix}
}

// cast creates the shadow of a hold. The command is dead within the session timeout after another
// client could acquire, since the client gives the session up early enough.
func (s *shadows) cast(ctx context.Context, hold *lock.Hold) (*shadow, error) {
	within := hold.Session().Timeout() + shadowMargin
	text, err := json.Marshal(shadowText{
		Node:     hold.Path(),
		Below:    strings.TrimPrefix(hold.Path(), s.path+"/"),
		Holder:   string(engine.Of(s.client).DefaultData()),
		WithinMS: within.Milliseconds(),
	})
	if err != nil {
		return nil, err
	}
	_, name := framework.Split(hold.Path())
	made := &shadow{s.client, framework.Join(s.dir, name)}
	_, err = s.client.Create(ctx, made.path, text, framework.ContainerParents())
	if err != nil && !errors.Is(err, zk.ErrNodeExists) { // created by an earlier attempt whose reply was lost
		made.remove(hold) // it may exist, even after a signal has ended the wait for the reply
		return nil, err
	}
	return made, nil
}

// How long the removal of a shadow may delay the exit of zklock. If it fails, the shadow stays, and
// the next holder waits for nothing.
const (
	removeTimeout = 5 * time.Second
	lostTimeout   = time.Second // when there is no connection, and no lock to be kept
)

// remove deletes the shadow of a hold whose command has ended. If the lock is lost, it does not
// wait for servers that do not answer.
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
	_ = s.client.Delete(ctx, s.path, framework.IfExists(), framework.Guaranteed())
}

func isConnected(client *framework.Client) bool {
	return slices.Contains([]connstate.State{connstate.Connected, connstate.Reconnected}, client.State())
}

// stillRuns is the error for a command that has not ended although its lock was lost.
type stillRuns struct{ holder string }

func (e *stillRuns) Error() string {
	return fmt.Sprintf("the command of %s, which lost the lock, has not exited yet", e.holder)
}

// awaitOthers waits for the commands whose locks were lost before hold began. If patient ends
// first, the error is a *stillRuns.
func (s *shadows) awaitOthers(ctx, patient context.Context, hold *lock.Hold, t *cli.App) error {
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

// await returns when a shadow is deleted or has expired. Its lifetime counts from the first hold
// that saw it: this one, or an earlier one that did not wait as long.
func (s *shadows) await(ctx, patient context.Context, t *cli.App, path string, hold *lock.Hold, held time.Time) error {
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
			return err // its lock is held, and shared with this one
		}
		before, err := s.sinceSeen(ctx, path, text, hold)
		if err != nil {
			return err
		}
		left := time.Until(held.Add(time.Duration(text.WithinMS)*time.Millisecond)) - before
		if left <= 0 {
			err := s.client.Delete(ctx, path, framework.IfExists(), framework.Guaranteed())
			return err
		}
		if patient.Err() == nil && !said {
			said = true
			t.Say("%s lost the lock while its command ran, or its machine crashed; waiting until that command exits, at most %v", text.Holder, left.Round(time.Second))
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

// sinceSeen returns how long before the own node was created an earlier holder saw the shadow, by
// the servers' clock: that holder wrote the shadow's node again. Without such a write it writes the
// node now, for later holders in case this one does not wait.
func (s *shadows) sinceSeen(ctx context.Context, path string, text shadowNode, hold *lock.Hold) (time.Duration, error) {
	if text.stat.Version == 0 {
		_, err := s.client.Set(ctx, path, text.data, framework.IfVersion(0))
		if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
			err = nil // another zklock has, or it was deleted: the watch has fired
		}
		return 0, err
	}
	found, own, err := s.client.Exists(ctx, hold.Path())
	if err != nil || !found { // the lock is lost, which ends ctx
		return 0, err
	}
	return max(0, time.Duration(own.Ctime-text.stat.Mtime)*time.Millisecond), nil
}

// shadowNode is a shadow's node with a watch on it.
type shadowNode struct {
	shadowText
	data  []byte
	stat  *zk.Stat
	watch *framework.Watch
}

// read reads a shadow's node.
func (s *shadows) read(ctx context.Context, path string) (n shadowNode, err error) {
	if n.data, n.stat, n.watch, err = s.client.GetW(ctx, path); err != nil {
		return n, err
	}
	err = json.Unmarshal(n.data, &n.shadowText)
	if n.Below != "" { // earlier versions leave it out
		n.Node = s.path + "/" + n.Below
	}
	if err != nil || framework.ValidatePath(n.Node) != nil {
		return n, fmt.Errorf("%s is not a node of zklock: delete it", path)
	}
	n.Holder = cli.Printable(n.Holder)
	return n, nil
}
