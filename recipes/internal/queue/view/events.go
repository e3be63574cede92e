package view

import (
	"errors"
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// The answers and events of the connection of a view.

// list takes the first list. Events that came before are contained in it.
func (v *View) list(names []string, stat *zk.Stat, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state != unlisted {
		return
	}
	v.state = listed
	if err != nil {
		return // a missing path has no children
	}
	// Cversion is twice the children created less the children there are, in 32 bits without a sign.
	v.next = int64((uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2)
	for _, name := range names {
		v.children[name] = &child{number: -1}
	}
}

// first returns the names of the children, and how many nodes of ours at most were created since the view was asked for.
func (v *View) first() (names []string, expected int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Keys(v.children)), v.load.cycles
}

// unread is why a child of the first list was not read. A child that is missing is fine if its event came before.
func (v *View) unread(name string, err error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.children[name] == nil && errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// begin makes the view one that can be asked, unless it has ended: after list and read, when the watch is known to be set.
func (v *View) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state == listed {
		v.state = ready
		close(v.ready)
	}
}

// event takes what happened to the path or to a node below it.
func (v *View) event(e zk.Event) {
	v.mu.Lock()
	parent, name := framework.Split(e.Path)
	complete := true // there was an event for every node so far, as far as the view can see
	var gone Member
	var alone []Member
	switch {
	case v.state != listed && v.state != ready:
	case e.Path == v.path:
		complete = v.pathEvent(e.Type)
	case parent != v.path: // further below
	case e.Type == zk.EventNodeCreated:
		alone, complete = v.add(name)
	case e.Type == zk.EventNodeDeleted:
		gone = v.drop(name)
	}
	tooHeavy := v.load.heavy()
	v.mu.Unlock()
	if gone != nil {
		gone.Deleted()
	}
	for _, m := range alone {
		m.Joined()
	}
	switch {
	case !complete:
		v.end(errMissed)
	case tooHeavy:
		v.end(errHeavy)
	}
}

// pathEvent takes what happened to the path. It is false if the view has children that are gone: a node with children
// cannot be deleted.
func (v *View) pathEvent(kind zk.EventType) bool {
	switch kind {
	case zk.EventNodeCreated:
		v.next = 0
	case zk.EventNodeDeleted:
		v.next = -1
	default:
		return true
	}
	return len(v.children) == 0
}

// add adds a child that was created, and returns the members that were alone until then. It is not ok if the end of the child
// before it was not reported, or the creation of the path.
func (v *View) add(name string) (alone []Member, ok bool) {
	if _, found := v.children[name]; found || v.next < 0 {
		return nil, false
	}
	v.children[name] = &child{number: v.next}
	v.next++
	for _, r := range v.rankings {
		if only := r.insert(name); only != "" && v.members[only] != nil {
			alone = append(alone, v.members[only])
		}
	}
	return alone, true
}

// drop removes a child that was deleted, wakes its waiters, and returns the member whose node it is, if there is one.
func (v *View) drop(name string) Member {
	c := v.children[name]
	if c == nil {
		return nil
	}
	delete(v.children, name)
	if !c.ours {
		v.load.events += 2 // it was created, too
	}
	for _, r := range v.rankings {
		r.remove(name)
	}
	for _, w := range slices.Clone(v.waiters[name]) {
		v.wake(w)
	}
	return v.members[name]
}

// wake notifies a waiter, unless that was done: a driver may have named a child twice. v.mu is held.
func (v *View) wake(w *Waiter) {
	if len(w.names) > 0 {
		close(w.c)
		v.forget(w)
	}
}

// forget removes a waiter. v.mu is held.
func (v *View) forget(w *Waiter) {
	for _, name := range w.names {
		rest := slices.DeleteFunc(v.waiters[name], func(other *Waiter) bool { return other == w })
		if len(rest) == 0 {
			delete(v.waiters, name)
		} else {
			v.waiters[name] = rest
		}
	}
	w.names = nil
}

// end ends the view: because of why, or if that is nil because its connection has ended or nobody uses it. All that use it
// are notified, and list from then on.
func (v *View) end(why error) {
	v.mu.Lock()
	if v.state == over {
		v.mu.Unlock()
		return
	}
	if v.state != ready {
		close(v.ready)
	}
	v.state = over
	close(v.done)
	for _, waiting := range v.waiters {
		for _, w := range slices.Clone(waiting) {
			v.wake(w)
		}
	}
	left := v.members
	v.members = nil
	v.mu.Unlock()
	v.ended(v, why)
	for _, m := range left {
		m.ViewEnded()
	}
}
