package sim

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// makeFaults makes one fault after the other, each healed when its time has passed, and returns when all
// is well again.
func (w *world) makeFaults() {
	began := time.Now()
	for _, f := range w.Faults {
		time.Sleep(time.Until(began.Add(f.At))) // virtual time
		if t := w.trapOf(f); t != nil {
			w.monitor.arm(t)
			continue
		}
		if f.Kind == loseCreate {
			w.healing.Go(func() { // ends some time later
				kind := nothingToHit
				if w.loseCreate(f) {
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

// fault makes one and returns what ends it, or nil. done says whether there was anything to hit.
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
		member.Stop()
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
	case expireSession:
		id := w.sessionOf(f)
		w.clients[f.Target%len(w.clients)].end()
		w.monitor.end(id)
		return nil, w.cluster.ExpireSession(id) == nil
	case deleteNode:
		return nil, w.deleteNode(f)
	case reapContainers:
		w.cluster.ReapContainers()
	case loseReply:
		member.Inject(zktest.LoseReply, f.N, zktest.OnOp(zktest.OpCreate, zktest.OpCreate2, zktest.OpCreateContainer, zktest.OpDelete, zktest.OpMulti))
	case failRequest:
		member.Inject(zktest.FailBefore, f.N)
	case throttle:
		return member.Tamper(throttled, zktest.OnOp(zktest.OpExists, zktest.OpGetData, zktest.OpGetChildren, zktest.OpGetChildren2)), true
	case jumpSequence:
		return nil, w.jumpSequence()
	}
	return nil, true
}

// check fails if the simulation itself does not work.
func (w *world) check(err error) {
	if err != nil && !errors.Is(err, zktest.ErrNoLeader) {
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

// deleteNode deletes somebody's node by hand.
func (w *world) deleteNode(f fault) bool {
	leader, err := w.cluster.Leader()
	if err != nil {
		return false
	}
	dir := lockPath
	if sub := recipes[w.Recipe].dirs; len(sub) > 0 {
		dir = framework.Join(dir, sub[f.Target%len(sub)])
	}
	names, err := leader.Children(dir)
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

// jumpSequence brings the numbers near to where the library makes them begin again.
func (w *world) jumpSequence() bool {
	const near = 1<<30 - 3
	leader, err := w.cluster.Leader()
	if err != nil {
		return false
	}
	dir := lockPath
	if sub := recipes[w.Recipe].dirs; len(sub) > 0 {
		dir = framework.Join(dir, sub[0])
	}
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
				for _, member := range w.cluster.Members() {
					member.CutConnections()
				}
			})
		}
	}
	return jumped
}

// throttled makes an answer one of a server that has too much to do.
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
