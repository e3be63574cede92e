package matrix

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/modeled"
	"github.com/gocurator/curator/recipes/once"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// Condition is what a story meets. The zero Condition is an ordinary day.
type Condition struct {
	Name string
	// Options returns the options of member "A" or "B".
	Options func(s *Scene, member string) []framework.Option
	// Always reports that the second round has the options too, because both clients of a path must
	// agree about them.
	Always bool
	// Server configures the servers.
	Server []zktest.Option
	// Before is called before the clients are created, and Ready when they are connected.
	Before, Ready func(s *Scene)
	// Middle is called in the middle of the story.
	Middle func(s *Scene)
	// AtRequest is called with the request number At of A, from 0, before it is carried out. It
	// must not block. Fault is the fault of that request.
	AtRequest func(s *Scene)
	Fault     zktest.Fault
	At        int

	// Allows are the errors with which the story may end.
	Allows []error
	// Peers reports that calls of B may end with these errors too.
	Peers bool
	// Waits reports that the story may wait until its deadline, for a reason that the error names
	// or that is logged.
	Waits bool
	// Noisy reports that clients may log.
	Noisy bool
	// Lingers reports that nodes may remain until their sessions end.
	Lingers bool
	// Closes reports that A is closed.
	Closes bool
	// Panics reports that the story may panic.
	Panics bool
	// Forced reports that nodes or sessions are deleted without a warning.
	Forced bool

	namespace   string
	long        bool
	undeletable string // a suffix of nodes that no client can delete
}

func (c Condition) moment() bool { return c.AtRequest != nil || c.Fault != 0 }

func (c Condition) allows(err error) bool {
	return slices.ContainsFunc(c.Allows, func(target error) bool { return errors.Is(err, target) })
}

// always returns the options of the second round.
func (c Condition) always() func(s *Scene, member string) []framework.Option {
	if c.Always {
		return c.Options
	}
	return nil
}

func (st Story) dirs() []string {
	if st.None {
		return nil
	}
	if len(st.Dirs) == 0 {
		return []string{""}
	}
	return st.Dirs
}

// both gives both members the same options.
func both(opts ...framework.Option) func(*Scene, string) []framework.Option {
	return func(*Scene, string) []framework.Option { return opts }
}

// onlyA gives A options.
func onlyA(opts ...framework.Option) func(*Scene, string) []framework.Option {
	return func(_ *Scene, member string) []framework.Option {
		if member == "A" {
			return opts
		}
		return nil
	}
}

var (
	digest  = framework.WithAuth("digest", []byte("team:secret"))
	private = framework.WithACLProvider(func(string) []zk.ACL { return zk.AuthACL(zk.PermAll) })
)

// must ends the cell if the scenery cannot be set up.
func (s *Scene) must(err error) {
	if err != nil {
		s.cell.fail("the scenery: %v", err)
	}
}

// put creates a node or overwrites it, and removes it at the end of the first round if it is new.
func (s *Scene) put(node zktest.Node) {
	server := s.Server()
	fresh := !server.Exists(node.Path)
	s.must(server.Load([]zktest.Node{node}))
	s.undo = append(s.undo, func() {
		if fresh {
			_ = server.Delete(node.Path) // the story may have deleted it
		}
	})
}

// open gives all clients all rights on all nodes.
func (s *Scene) open() {
	nodes := s.Server().Dump()
	for i := range nodes {
		nodes[i].ACL = nil
	}
	s.must(s.Server().Load(nodes))
}

// deny takes permissions of a node away from all clients.
func (s *Scene) deny(path string, perms int32) {
	node := zktest.Node{Path: path, ACL: zk.WorldACL(zk.PermAll &^ perms)}
	server := s.Server()
	if server.Exists(path) {
		node.Data, _ = server.Get(path)
	}
	s.must(server.Load([]zktest.Node{node}))
	s.undo = append(s.undo, func() {
		_ = server.Delete(path)
	})
}

// conditions returns all conditions of a story, but for moments.
func conditions(st Story) []Condition {
	list := slices.Concat(options(), servers(), limits(st), rights(st), neighbours(st), beside(), interventions())
	slices.SortStableFunc(list, func(a, b Condition) int { return strings.Compare(a.Name, b.Name) })
	if st.OwnClient {
		list = slices.DeleteFunc(list, func(c Condition) bool { return c.Options != nil || c.namespace != "" })
	}
	return list
}

// gone are the errors of holds and nodes that another client has deleted.
var gone = []error{framework.ErrLost, zk.ErrNoNode, framework.ErrEnded}

// bad are the errors of data that are not a recipe's own.
var bad = []error{shared.ErrBadValue, modeled.ErrBadValue, once.ErrBadValue, framework.ErrNotCompressed, framework.ErrBadArgument}

func options() []Condition {
	return []Condition{
		{Name: "namespace", namespace: "team/a", Options: both(framework.WithNamespace("team/a")), Always: true},
		{Name: "compression", Options: both(framework.WithCompression()), Always: true},
		{Name: "ACL of the creator", Options: both(digest, private), Always: true},
		{Name: "ACL of another", Options: func(_ *Scene, member string) []framework.Option {
			return []framework.Option{framework.WithAuth("digest", []byte(member+":secret")), private}
		}, Ready: func(s *Scene) { s.undo = append(s.undo, s.open) }, Allows: []error{zk.ErrNoAuth, lock.ErrNotAcquired}, Peers: true, Waits: true, Noisy: true, Lingers: true},
		{Name: "default data nil", Options: both(framework.WithDefaultData(nil))},
		{Name: "small requests", Options: both(framework.WithMaxRequest(1024)), Allows: []error{framework.ErrTooLong}, Peers: true},
		{Name: "lost ends hold", Options: both(framework.WithErrorPolicy(connstate.LostEndsHold))},
		{Name: "without containers", Options: both(framework.WithoutContainers())},
		{Name: "half of the session", Options: both(framework.WithExpirationPercent(60))},
		{Name: "ensemble tracking", Options: both(framework.WithEnsembleTracking())},
		{Name: "retries forever", Options: both(framework.WithRetryPolicy(retry.Forever(time.Second)))},
		{Name: "no retries", Options: both(framework.WithRetryPolicy(retry.Never()))},
		{Name: "nil retry policy's back-off", Options: both(framework.WithRetryPolicy(func() retry.BackOff { return nil }))},
		{Name: "standard watches", Ready: func(s *Scene) {
			engine.Of(s.A).SetUnknown(proto.OpAddWatch)
			engine.Of(s.B).SetUnknown(proto.OpAddWatch)
		}},
		{Name: "view of a session", Ready: func(s *Scene) {
			session, err := s.A.Session(s.Ctx)
			s.must(err)
			s.A = s.A.In(session)
		}, Allows: []error{framework.ErrSessionLost}, Noisy: true},
		{Name: "observer that blocks", Options: onlyA(
			framework.WithObserver(framework.Observer{
				Operation: func(context.Context, framework.OperationEvent) { time.Sleep(time.Second) }, // virtual time: it blocks
				State:     func(framework.StateEvent) { time.Sleep(10 * time.Second) },                 // virtual time: it blocks
			}),
			lock.WithObserver(lock.Observer{
				Joined: func(context.Context, lock.JoinedEvent) { time.Sleep(time.Second) }, // virtual time: it blocks
				Ended:  func(context.Context, lock.EndedEvent) { time.Sleep(time.Second) },  // virtual time: it blocks
			}),
		)},
		{Name: "observer that panics in a state", Options: onlyA(framework.WithObserver(framework.Observer{
			State: func(framework.StateEvent) { panic("state") },
		})), Noisy: true},
		{Name: "observer that panics when a lock is joined", Options: onlyA(lock.WithObserver(lock.Observer{
			Joined: func(context.Context, lock.JoinedEvent) { panicOnStory() },
		})), Panics: true, Noisy: true},
		{Name: "observer that panics when a lock is acquired", Options: onlyA(lock.WithObserver(lock.Observer{
			Acquired: func(ctx context.Context, _ lock.AcquiredEvent) context.Context { panicOnStory(); return ctx },
		})), Panics: true, Noisy: true},
		{Name: "observer that panics at the third operation", Options: func(_ *Scene, member string) []framework.Option {
			if member != "A" {
				return nil
			}
			n := 0
			return []framework.Option{framework.WithObserver(framework.Observer{Operation: func(context.Context, framework.OperationEvent) {
				if onStory() {
					if n++; n == 3 {
						panic("operation")
					}
				}
			}})}
		}, Panics: true, Noisy: true},
	}
}

func panicOnStory() {
	if onStory() {
		panic("observer")
	}
}

func servers() []Condition {
	keeper := func(age string) Condition {
		return Condition{Name: "Keeper, " + age, Server: []zktest.Option{zktest.LikeKeeper(age)}, Allows: []error{framework.ErrUnimplemented}, Peers: true}
	}
	return []Condition{
		keeper("newest"), keeper("new"), keeper("recent"), keeper("old"),
		{Name: "ZooKeeper 3.8.0", Server: []zktest.Option{zktest.WithVersion("3.8.0")}},
		{Name: "ZooKeeper 3.4", Server: []zktest.Option{zktest.WithoutContainers()}},
		{Name: "without TTL nodes", Server: []zktest.Option{zktest.WithProperties(map[string]string{"extendedTypesEnabled": "false"})},
			Allows: []error{framework.ErrUnimplemented}, Peers: true},
	}
}

func limits(st Story) []Condition {
	list := []Condition{
		{Name: "names of 200 characters", long: true},
		{Name: "names of 200 characters, small requests", long: true, Options: both(framework.WithMaxRequest(1024)),
			Allows: []error{framework.ErrTooLong}, Peers: true, Waits: true, Noisy: true},
		{Name: "names of 200 characters, namespace", long: true, namespace: "team/a", Options: both(framework.WithNamespace("team/a")), Always: true},
	}
	for _, dir := range st.dirs() {
		list = append(list,
			Condition{Name: "a full node at " + at(dir), Before: func(s *Scene) {
				s.put(zktest.Node{Path: s.Real(dir), Data: noise(1<<20 - 1024)})
			}},
			Condition{Name: "a full child of " + at(dir), Before: func(s *Scene) {
				s.put(zktest.Node{Path: s.Real(dir) + "/full", Data: noise(1<<20 - 1024)})
			}, Noisy: true},
			Condition{Name: "many children of " + at(dir), Before: func(s *Scene) {
				for i := range 500 {
					s.put(zktest.Node{Path: fmt.Sprintf("%s/child%d", s.Real(dir), i), Data: []byte("x")})
				}
			}, Noisy: true},
		)
	}
	if st.Join != nil {
		list = append(list, Condition{Name: "many members", Ready: func(s *Scene) {
			for i := range 20 {
				client, err := s.Client(fmt.Sprintf("member %d", i))
				s.must(err)
				stop, err := st.Join(s, client, fmt.Sprintf("member%d", i))
				s.must(err)
				if stop != nil {
					s.tasks.Go(func() { <-s.Peer.Done(); stop() })
				}
			}
		}})
	}
	return list
}

// at names a suffix.
func at(dir string) string {
	if dir == "" {
		return "the path"
	}
	return dir
}

// noise returns bytes that are no text, no JSON and not compressed.
func noise(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.Read(data)
	data[0] = 0xff
	return data
}

func rights(st Story) (list []Condition) {
	value := len(st.dirs())
	for i, dir := range slices.Concat(st.dirs(), st.Values) {
		for name, perm := range map[string]int32{"read": zk.PermRead, "create": zk.PermCreate, "delete": zk.PermDelete, "write": zk.PermWrite} {
			before := Condition{Name: "denied: " + name + " at " + at(dir), Before: func(s *Scene) { s.deny(s.Real(dir), perm) }}
			middle := Condition{Name: "denied in the middle: " + name + " at " + at(dir), Middle: func(s *Scene) { s.denyNow(s.Real(dir), perm) }}
			if perm == zk.PermDelete {
				before.undeletable, middle.undeletable = dir+"/*", dir+"/*"
			}
			both := []Condition{middle}
			if i < value {
				both = append(both, before)
			}
			for _, c := range both {
				c.Allows, c.Peers, c.Waits, c.Noisy, c.Lingers = []error{zk.ErrNoAuth, lock.ErrNotAcquired}, true, true, true, true
				list = append(list, c)
			}
		}
	}
	return list
}

// denyNow takes permissions of an existing node away.
func (s *Scene) denyNow(path string, perms int32) {
	server := s.Server()
	if !server.Exists(path) {
		return
	}
	set := func(acl []zk.ACL) error {
		data, err := server.Get(path)
		if err != nil {
			return nil // deleted
		}
		return server.Load([]zktest.Node{{Path: path, Data: data, ACL: acl}})
	}
	s.must(set(zk.WorldACL(zk.PermAll &^ perms)))
	s.undo = append(s.undo, func() { s.must(set(nil)) })
}

func neighbours(st Story) (list []Condition) {
	for _, dir := range st.dirs() {
		child := func(what, name string, node zktest.Node, more ...func(*Condition)) {
			c := Condition{Name: what + " below " + at(dir), Before: func(s *Scene) {
				node := node
				node.Path = s.Real(dir) + "/" + name
				s.put(node)
			}, Noisy: true}
			for _, f := range more {
				f(&c)
			}
			list = append(list, c)
		}
		compressing := func(c *Condition) {
			c.Options, c.Always = both(framework.WithCompression()), true
		}
		child("a foreign child", "config", zktest.Node{Data: []byte("x")})
		child("a foreign child without data", "config", zktest.Node{})
		child("a foreign child, compression,", "config", zktest.Node{Data: []byte("x")}, compressing)
		child("a foreign child without data, compression,", "config", zktest.Node{}, compressing)
		child("an unreadable child", "config", zktest.Node{Data: []byte("x"), ACL: zk.WorldACL(zk.PermAll &^ zk.PermRead)})
		child("a child with garbage", "config", zktest.Node{Data: noise(100)})
		child("a child with an odd name", "a b%2fc-0000000001", zktest.Node{Data: []byte("{}")})
		child("a child with a null", "config", zktest.Node{Data: []byte("null")})
		child("a node of a mutex", "_c_5e3d2f5e-0000-4000-8000-000000000001-lock-0000000000", zktest.Node{Data: []byte("x")})
		child("a node of an election", "_c_5e3d2f5e-0000-4000-8000-000000000001-latch-0000000000", zktest.Node{Data: []byte("x")})
		child("a node of a writer", "_c_5e3d2f5e-0000-4000-8000-000000000001-__WRIT__0000000000", zktest.Node{Data: []byte("x")})
		child("a node of a lease", "_c_5e3d2f5e-0000-4000-8000-000000000001-lease-0000000000", zktest.Node{Data: []byte("x")})
	}
	for _, name := range st.Lookalikes {
		list = append(list, Condition{Name: "a persistent look-alike at " + name, Before: func(s *Scene) {
			s.put(zktest.Node{Path: s.Real(name), Data: []byte(cmp.Or(st.LookalikeData, "x"))})
		}, Noisy: true})
	}
	return list
}

// interventions happen in the middle of a story.
func interventions() []Condition {
	return []Condition{
		{Name: "another client deletes all nodes", Middle: func(s *Scene) { s.deleteAll(func(zktest.Node) bool { return true }) },
			Allows: gone, Peers: true, Noisy: true, Forced: true},
		{Name: "another client deletes the ephemeral nodes", Middle: func(s *Scene) { s.deleteAll(func(n zktest.Node) bool { return n.Owner != 0 }) },
			Allows: gone, Peers: true, Noisy: true, Forced: true},
		{Name: "another client writes garbage", Middle: func(s *Scene) {
			for _, n := range s.Server().Dump() {
				if strings.HasPrefix(n.Path, s.real+"/") {
					_ = s.Server().Set(n.Path, noise(20)) // it may be deleted already
				}
			}
			s.undo = append(s.undo, func() { _ = s.Server().Delete(s.real) }) // the servers may have deleted it
		}, Noisy: true, Peers: true, Allows: bad, Forced: true},
		{Name: "connections cut", Middle: func(s *Scene) { s.each((*zktest.Server).CutConnections) },
			Allows: []error{framework.ErrSuspended}, Peers: true, Noisy: true},
		{Name: "connections cut, lost ends hold", Options: both(framework.WithErrorPolicy(connstate.LostEndsHold)),
			Middle: func(s *Scene) { s.each((*zktest.Server).CutConnections) }, Noisy: true},
		{Name: "an outage of a minute", Middle: func(s *Scene) {
			s.each((*zktest.Server).Stop)
			time.Sleep(time.Minute) // virtual time: the length of the fault
			s.each(func(m *zktest.Server) { s.must(m.Restart()) })
		}, Allows: []error{framework.ErrLost}, Peers: true, Noisy: true, Lingers: true},
		{Name: "all connections freeze for a minute", Middle: func(s *Scene) {
			s.each(func(m *zktest.Server) { m.Freeze() })
			time.Sleep(time.Minute) // virtual time: the length of the fault
			s.each(func(m *zktest.Server) { m.Thaw() })
		}, Allows: []error{framework.ErrLost}, Peers: true, Noisy: true, Lingers: true},
	}
}

func (s *Scene) each(f func(*zktest.Server)) {
	s.disturbed.Store(true)
	for _, m := range s.cell.bed.members {
		f(m)
	}
}

// deleteAll deletes nodes below the path of the story, children first.
func (s *Scene) deleteAll(which func(zktest.Node) bool) {
	s.disturbed.Store(true)
	nodes := s.Server().Dump()
	for _, n := range slices.Backward(nodes) {
		if strings.HasPrefix(n.Path, s.real+"/") && which(n) {
			_ = s.Server().Delete(n.Path) // it may be deleted already
		}
	}
}

// moments are conditions that begin at one request of A.
func moments() []Condition {
	closes := func(c Condition) Condition {
		c.Closes, c.Noisy, c.Lingers = true, true, false
		return c
	}
	return []Condition{
		closes(Condition{Name: "Close", AtRequest: func(s *Scene) { s.tasks.Go(func() { s.A.Close() }) }, Allows: []error{framework.ErrClosed}}),
		closes(Condition{Name: "Close at the reply", AtRequest: func(s *Scene) {
			s.tasks.Go(func() {
				time.Sleep(time.Microsecond) // virtual time: the server has applied the request, the reply is under way
				s.A.Close()
			})
		}, Allows: []error{framework.ErrClosed}}),
		closes(Condition{Name: "Shutdown", AtRequest: func(s *Scene) {
			s.tasks.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				_ = s.A.Shutdown(ctx) // it names holds that the story has not released
			})
		}, Allows: []error{framework.ErrClosed, framework.ErrShutdown, framework.ErrEnded}}),
		{Name: "cancel", AtRequest: func(s *Scene) { s.cancel() }, Allows: []error{context.Canceled}, Noisy: true},
		{Name: "fail before", Fault: zktest.FailBefore, Allows: []error{framework.ErrSuspended}, Noisy: true},
		{Name: "lose reply", Fault: zktest.LoseReply, Allows: []error{framework.ErrSuspended}, Noisy: true},
		{Name: "expire before", Fault: zktest.ExpireBefore, Allows: []error{framework.ErrLost}, Noisy: true, Forced: true},
		{Name: "expire after", Fault: zktest.ExpireAfter, Allows: []error{framework.ErrLost}, Noisy: true, Forced: true},
		{Name: "lose reply, no retries", Fault: zktest.LoseReply, Options: onlyA(framework.WithRetryPolicy(retry.Never())),
			Allows: []error{framework.ErrSuspended, retry.ErrExhausted, zk.ErrConnectionClosed, zk.ErrNoServer}, Noisy: true},
		{Name: "lose reply, cancel", Fault: zktest.LoseReply, AtRequest: func(s *Scene) { s.cancel() }, Allows: []error{context.Canceled, framework.ErrSuspended}, Noisy: true},
		{Name: "another client deletes an ephemeral node", AtRequest: func(s *Scene) {
			s.tasks.Go(func() { s.deleteAll(func(n zktest.Node) bool { return n.Owner != 0 }) })
		}, Allows: gone, Noisy: true, Peers: true, Forced: true},
	}
}
