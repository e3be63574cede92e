package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// makeFaults injects one fault after the other, heals each when its time has passed, and returns
// when all are healed.
func (w *world) makeFaults() {
	began := time.Now()
	for _, f := range w.Faults {
		time.Sleep(time.Until(began.Add(f.At))) // virtual time
		if t := w.trapOf(f); t != nil {
			w.monitor.arm(t)
			continue
		}
		if slow := w.slowFault(f); slow != nil {
			w.healing.Go(func() { // ends some time later
				kind := nothingToHit
				if slow() {
					kind = "fault: " + f.Kind.String()
				}
				w.monitor.count(kind)
			})
			continue
		}
		heal, done := w.fault(f)
		if !done {
			w.monitor.count(nothingToHit)
			continue
		}
		w.monitor.count("fault: " + f.Kind.String())
		w.monitor.note("FAULT %v", f)
		if heal == nil {
			continue
		}
		w.healing.Go(func() {
			time.Sleep(f.For) // virtual time
			w.monitor.note("healed: %v", f)
			heal()
		})
	}
	time.Sleep(time.Until(began.Add(w.Length))) // virtual time
	for range w.monitor.disarm() {
		w.monitor.count(nothingToHit)
	}
	w.healing.Wait()
	w.cluster.Heal()
	for _, member := range w.cluster.Members() {
		member.ClearFaults()
		if err := member.Restart(); err != nil {
			w.monitor.fail("simulation", "restart: %v", err)
		}
		if err := w.cluster.Lag(member, 0); err != nil {
			w.monitor.fail("simulation", "lag: %v", err)
		}
	}
}

// slowFault is a fault that takes its time, or nil if it is of another kind.
func (w *world) slowFault(f fault) func() bool {
	switch f.Kind {
	case loseCreate:
		return func() bool { return w.loseCreate(f) }
	case replaceMember:
		return func() bool { return w.replaceMember(f) }
	}
	return nil
}

// replaceMember adds a member and removes another one, but never the first: a client that is out of
// reach while all the servers are replaced that it knows would find none. One member is replaced at
// a time.
func (w *world) replaceMember(f fault) bool {
	w.replacing <- struct{}{}
	defer func() { <-w.replacing }()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	added, err := w.cluster.Add(ctx)
	w.monitor.note("FAULT %v: added %v: %v", f, added.Addr(), err)
	if err != nil {
		return false // it follows
	}
	w.watchServer(len(w.cluster.Members())-1, added)
	members := w.cluster.Members()
	old := members[1+f.Target%(len(members)-2)]
	if leader, err := w.cluster.Leader(); err == nil && f.Leader && leader != members[0] {
		old = leader
	}
	err = w.cluster.Remove(ctx, old)
	w.monitor.note("removed %v: %v", old.Addr(), err)
	return err == nil
}

// stop stops a member. A ClickHouse Keeper that is stopped in the normal way asks for the end of
// its clients' sessions: here of those clients that have noticed the end of their connections,
// since the others cannot know.
func (w *world) stop(member *zktest.Server) {
	if w.ClickHouse == "" {
		member.Stop()
		return
	}
	sessions := make([]int64, len(w.clients)) // 0: not of this member
	for i, u := range w.clients {
		if id := u.session(); slices.ContainsFunc(member.Sessions(), func(s zktest.Session) bool { return s.ID == id && s.Connected }) {
			sessions[i] = id
		}
	}
	member.Stop()
	time.AfterFunc(50*time.Millisecond, func() {
		for i, u := range w.clients {
			if !u.client.State().IsConnected() {
				_ = w.cluster.ExpireSession(sessions[i]) // if there is no leader it ends by itself
			}
		}
	})
}

// fault injects one fault and returns the function that heals it, or nil. done reports whether
// there was a target.
func (w *world) fault(f fault) (heal func(), done bool) {
	members := w.cluster.Members()
	member := members[f.Target%len(members)]
	if f.Leader {
		if leader, err := w.cluster.Leader(); err == nil {
			member = leader
		}
	}
	switch f.Kind {
	case pauseMember:
		member.Pause()
		return member.Resume, true
	case stopMember:
		w.stop(member)
		return func() { w.check(member.Restart()) }, true
	case cutOffMember:
		w.check(w.cluster.Partition(member))
		return w.cluster.Heal, len(members) > 1
	case lagMember:
		w.check(w.cluster.Lag(member, f.For))
		return func() { w.check(w.cluster.Lag(member, 0)) }, true
	case cutConnections:
		member.CutConnections()
	case freezeMember:
		member.Freeze()
		return func() { member.Thaw() }, true
	case freezeSession:
		return w.freezeSession(f)
	case refuseConnections:
		member.RefuseConnections(true)
		return func() { member.RefuseConnections(false) }, true
	case refuseCredentials:
		return w.refuseCredentials(f), w.ACL != ""
	case expireSession:
		id := w.sessionOf(f)
		w.clients[f.Target%len(w.clients)].end()
		w.monitor.end(id)
		return nil, w.cluster.ExpireSession(id) == nil
	case deleteNode:
		return nil, w.deleteNode(f)
	case reapContainers:
		w.cluster.Members()[0].ReapContainers()
	case loseReply:
		member.Inject(zktest.LoseReply, f.N, zktest.OnOp("create", "create2", "createContainer", "delete", "multi"))
	case failRequest:
		member.Inject(zktest.FailBefore, f.N)
	case throttle:
		return member.Rewrite(throttled, zktest.OnOp("exists", "getData", "getChildren", "getChildren2")), true
	case jumpSequence:
		return nil, w.jumpSequence()
	case delayRequests:
		return member.Delay(delayOf(f), zktest.OnOp(delayed[f.N%len(delayed)]), zktest.OnSession(w.sessionOf(f))), true
	}
	return nil, true
}

// delayed are the requests of which one kind is delayed.
var delayed = []string{"getData", "delete", "create", "create2", "getChildren2", "multi"}

// delayOf is up to 30 ms, or, one time in three, up to 400 ms.
func delayOf(f fault) time.Duration {
	if f.Target%3 == 0 {
		return time.Duration(f.Target%400) * time.Millisecond
	}
	return time.Duration(f.Target%30) * time.Millisecond
}

// check fails if the simulation itself does not work. A member may have been replaced by then.
func (w *world) check(err error) {
	if err != nil && !slices.ContainsFunc([]error{zktest.ErrNoLeader, zktest.ErrClosed, zktest.ErrNotMember}, func(target error) bool { return errors.Is(err, target) }) {
		w.monitor.fail("simulation", "%v", err)
	}
}

// sessionOf is the session of a client, or 0.
func (w *world) sessionOf(f fault) int64 { return w.clients[f.Target%len(w.clients)].session() }

// freezeSession cuts one client off from all members.
func (w *world) freezeSession(f fault) (thaw func(), done bool) {
	id := w.sessionOf(f)
	if id == 0 {
		return nil, false
	}
	w.freeze(id)
	return func() { w.thaw(id) }, true
}

// refuseCredentials lets a member, or all of them, refuse the credentials of all clients that
// connect. Connected clients lose their connections.
func (w *world) refuseCredentials(f fault) (accept func()) {
	members := w.cluster.Members()
	if f.N > 0 {
		members = []*zktest.Server{members[f.Target%len(members)]}
	}
	for _, member := range members {
		member.RefuseCredentials(true)
		member.CutConnections()
	}
	return func() {
		for _, member := range members {
			member.RefuseCredentials(false)
		}
	}
}

// deleteNode deletes the node of a contender by hand.
func (w *world) deleteNode(f fault) bool {
	leader, err := w.cluster.Leader()
	if err != nil {
		return false
	}
	dir := w.parent(f.Target)
	names, err := leader.Children(dir)
	// a deleted mark would end a delay
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, markPrefix) })
	if err != nil || len(names) == 0 {
		return false
	}
	path := framework.Join(dir, names[f.Target%len(names)])
	w.monitor.delete(path)
	if leader.Delete(path) != nil {
		return false
	}
	w.monitor.isGone(path)
	return true
}

// parent returns a parent of the contenders' nodes.
func (w *world) parent(i int) string {
	if sub := recipes[w.Recipe].dirs; len(sub) > 0 {
		return framework.Join(lockPath, sub[i%len(sub)])
	}
	return lockPath
}

// cut cuts all connections.
func (w *world) cut() {
	for _, member := range w.cluster.Members() {
		member.CutConnections()
	}
}

// jumpSequence moves the numbers close to the point where the library restarts them.
func (w *world) jumpSequence() bool {
	const near = 1<<30 - 3
	leader, err := w.cluster.Leader()
	if err != nil {
		return false
	}
	dir := w.parent(0)
	for _, n := range leader.Dump() {
		if n.Path == dir && n.Sequence >= near {
			return false // to go back would be none of ZooKeeper's faults
		}
	}
	jumped := leader.SetSequence(dir, near) == nil
	if jumped {
		// Views begin anew while the numbers are at their end.
		for i := range time.Duration(4) {
			w.healing.Go(func() { // ends soon
				time.Sleep(i * 150 * time.Millisecond) // virtual time
				w.cut()
			})
		}
	}
	return jumped
}

// throttled turns a reply into an overloaded server's.
func throttled(_ zktest.Request, answer []byte) []byte {
	const header, throttledOp = 4 + 4 + 8 + 4, -127
	if len(answer) < header {
		return answer
	}
	out := append([]byte{}, answer[:header]...)
	binary.BigEndian.PutUint32(out, header-4)
	code := int32(throttledOp)
	binary.BigEndian.PutUint32(out[header-4:], uint32(code))
	return out
}
