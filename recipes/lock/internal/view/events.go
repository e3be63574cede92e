package view

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// The answers and events of the connection of a view.

// list takes the first list. It contains what earlier events reported. A path that does not
// exist has no children.
func (v *View) list(names []string, stat *zk.Stat, err error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	missing := errors.Is(err, zk.ErrNoNode)
	switch {
	case err != nil && !missing:
		return err
	case v.state != unlisted:
		return nil
	case len(names) > MaxOthers+v.load.cycles:
		return errHeavy
	}
	v.state = listed
	if missing {
		return nil
	}
	// Cversion is twice the children created less the children there are, in 32 bits without a
	// sign.
	v.next = int64((uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2)
	for _, name := range names {
		v.children[name] = &child{number: -1}
	}
	return nil
}

// unread is why a child of the first list was not read. A missing child is fine if its event
// was received before.
func (v *View) unread(name string, err error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.children[name] == nil && errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// begin makes the view one that can be asked, unless it has ended: after list and read, when the
// watch is known to be set.
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
	why := errMissed // of the end; even if a driver's SortKey panics, which ends no more than the view
	defer func() {
		if why != nil {
			v.end(why)
		}
	}()
	var gone Member
	var alone []Member
	gone, alone, why = v.take(e)
	if gone != nil {
		gone.Deleted()
	}
	for _, m := range alone {
		m.Joined()
	}
}

// take changes the view by an event. It returns the member that is gone, those that are not alone
// any more, and why the view must end.
func (v *View) take(e zk.Event) (gone Member, alone []Member, why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	parent, name := framework.Split(e.Path)
	switch {
	case v.state != listed && v.state != ready:
	case e.Path == v.path:
		why = v.pathEvent(e.Type)
	case parent != v.path: // further below
	case e.Type == zk.EventNodeCreated:
		alone, why = v.add(name)
	case e.Type == zk.EventNodeDeleted:
		gone, why = v.drop(name)
	}
	return gone, alone, why
}

// pathEvent takes what happened to the path. The view is not complete if it has children then: a
// node with children cannot be deleted.
func (v *View) pathEvent(kind zk.EventType) error {
	switch kind {
	case zk.EventNodeCreated:
		v.next = 0
	case zk.EventNodeDeleted:
		v.next = -1
	default:
		return nil
	}
	if len(v.children) > 0 {
		return errMissed
	}
	return nil
}

// add adds a child that was created, and returns the members that were alone until then. The view
// is not complete if the end of the child before it was not reported, or the creation of the path.
func (v *View) add(name string) (alone []Member, why error) {
	if _, found := v.children[name]; found || v.next < 0 {
		return nil, errMissed
	}
	v.children[name] = &child{number: v.next}
	v.next++
	for _, r := range v.rankings {
		if m := r.members[r.insert(name)]; m != nil {
			alone = append(alone, m)
		}
	}
	return alone, nil
}

// drop removes a child that was deleted, wakes its waiters, and returns the member whose node it
// is, if there is one.
func (v *View) drop(name string) (m Member, why error) {
	c := v.children[name]
	if c == nil {
		return nil, nil
	}
	delete(v.children, name)
	if !c.ours {
		v.load.events += 2 // it was created, too
	}
	if v.load.heavy() {
		why = errHeavy
	}
	c.wake()
	for _, r := range v.rankings {
		r.remove(name)
		if r.members[name] != nil {
			m = r.members[name]
		}
	}
	return m, why
}
