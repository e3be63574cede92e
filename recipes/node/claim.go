package node

import (
	"context"
	"fmt"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
)

// claims says which Node of this process may have a node at a path in a session. Only that one makes, writes and deletes
// it. The nodes of several Keeps of one client have the same owner, so that the server cannot tell them apart. An ephemeral node
// and a persistent one it can: Keeps of different kinds are to each other what those of different clients are.
var claims = registry{byKey: make(map[claimKey]*claim)}

type registry struct {
	mu    sync.Mutex // guards all claims
	byKey map[claimKey]*claim
}

type claimKey struct {
	session    *framework.Session
	path       string // the server's
	persistent bool   // the kind of node
}

// claim is the right of one Node to have the node. Who has it answers for each node of the session at the path, also for
// one of a Node that had the claim before.
type claim struct {
	holder  *Node
	there   bool          // the holder has seen the node there, as its own
	asked   *Node         // it gets the claim as soon as the holder yields; or nil
	changed chan struct{} // closed when the holder or there changes, and replaced
}

// take gives n the claim, unless another Node has it: then changed is closed when it is worth another try, and there reports
// whether the other one has its node and does not leave. handed means that another Node has given the claim to n. With
// ask, the holder is asked for it.
func (r *registry) take(key claimKey, n *Node, ask bool) (ok, handed, there bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.byKey[key]
	switch {
	case c == nil:
		r.byKey[key] = &claim{holder: n, changed: make(chan struct{})}
		return true, false, false, nil
	case c.holder == n:
		return true, true, false, nil
	}
	if ask {
		c.asked = n
		c.holder.notify()
	}
	return false, false, c.there && c.holder.ctx.Err() == nil, c.changed
}

// wanted reports whether the holder has been asked for the claim.
func (r *registry) wanted(key claimKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.byKey[key]
	return c != nil && c.asked != nil
}

// yield gives the claim to the Node that has asked for it, and reports whether there was one.
func (r *registry) yield(key claimKey, n *Node) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.byKey[key]
	if c == nil || c.holder != n || c.asked == nil {
		return false
	}
	c.holder, c.asked, c.there = c.asked, nil, false
	close(c.changed)
	c.changed = make(chan struct{})
	return true
}

// seen notes that n, the holder, has its node. Those who wait for the claim are told.
func (r *registry) seen(key claimKey, n *Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.byKey[key]; c != nil && c.holder == n && !c.there {
		c.there = true
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

// release ends what n has of the claim.
func (r *registry) release(key claimKey, n *Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.byKey[key]
	switch {
	case c == nil:
	case c.holder == n:
		delete(r.byKey, key)
		close(c.changed)
	case c.asked == n:
		c.asked = nil
	}
}

// withdraw takes back what n has asked for, and reports whether n has been given the claim nevertheless. leaving is not
// nil if another Node has the claim and is about to end: it is closed then.
func (r *registry) withdraw(key claimKey, n *Node) (held bool, leaving <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.byKey[key]
	switch {
	case c == nil:
		return false, nil
	case c.holder == n:
		return true, nil
	case c.asked == n:
		c.asked = nil
	}
	if c.holder.ctx.Err() != nil {
		return false, c.changed
	}
	return false, nil
}

// claim sees to it that no other Keep of this client has a node at the path. It reports false if one has: then blocked is
// closed when that changes.
func (k *keeper) claim(ctx context.Context) (bool, error) {
	// Not before the outcome of a create is known: the next holder could not tell whose it is.
	if k.claimed && !k.unsure && claims.wanted(k.key()) {
		k.lose(k.takenByKeep()) // before the next holder can show the node
		k.disown()
		k.claimed, k.view = !claims.yield(k.key(), k.Node), view{}
		k.sent, k.passed = k.claimed, k.passed || !k.claimed
	}
	if k.claimed {
		k.own()
		return true, nil
	}
	ok, handed, there, changed := claims.take(k.key(), k.Node, k.cfg.taken == Replace && !k.kept && !k.passed)
	if ok {
		k.claimed, k.blocked = true, nil
		k.sent = k.sent || handed
		k.view = view{} // others may have made and deleted the node since
		k.own()
		return true, nil
	}
	if k.cfg.sequential && !k.cfg.protected && !k.kept {
		return false, k.choose(ctx)
	}
	k.blocked, k.view = changed, view{}
	if there {
		k.lose(k.takenByKeep())
		k.log(k.takenByKeep())
	}
	return false, nil
}

// unclaim lets other Keeps of this client try. No node of ours is there, nor will one come.
func (k *keeper) unclaim() {
	if k.claimed {
		k.disown()
	}
	k.releaseClaim()
}

// releaseClaim ends what we have of the claim, and of a request for it.
func (k *keeper) releaseClaim() {
	if k.session != nil {
		claims.release(k.key(), k.Node)
	}
	k.claimed, k.blocked = false, nil
}

func (k *keeper) key() claimKey {
	return claimKey{k.session, clientapi.RealPath(k.client, k.path), k.cfg.persistent}
}

// own notes that a node of this session at the path is ours.
func (k *keeper) own() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mine[k.session.ID()] = true
}

// disown notes that a node of this session at the path is not ours.
func (k *keeper) disown() {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.mine, k.session.ID())
}

// former reports whether a node with this owner is one of ours that an earlier session of ours has left. A persistent one is left
// by no session.
func (k *keeper) former(owner int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.cfg.persistent && owner != k.session.ID() && k.mine[owner]
}

func (k *keeper) takenByKeep() error {
	return &framework.OpError{Op: "keep", Path: k.path, Err: fmt.Errorf("%w: another Keep of this client", ErrTaken)}
}
