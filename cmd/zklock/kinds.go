package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
)

// The kinds of locks.
const (
	kindMutex     = "mutex"
	kindReadWrite = "read/write lock"
	kindSemaphore = "semaphore"
	kindKazoo     = "kazoo lock"
	kindElection  = "election"
)

// What kazoo calls its nodes.
const (
	kazooName   = "__lock__"  // of its Lock and its WriteLock
	kazooReader = "__rlock__" // of its ReadLock
)

// kazooQueue decides who holds one of kazoo's locks, of which zklock only shows the nodes. Readers hold together.
type kazooQueue struct{ lock.Standard }

// SortKey is the sequence number.
func (q kazooQueue) SortKey(child, _ string) (key string, ours bool) {
	if key, ours = q.Standard.SortKey(child, kazooName); ours {
		return key, true
	}
	return q.Standard.SortKey(child, kazooReader)
}

// Decide has a reader wait for those ahead that are none, and others wait for all.
func (q kazooQueue) Decide(children []string, own string, _ int) (lock.Decision, error) {
	if _, reads := lock.Sequence(own, kazooReader); reads {
		children = slices.DeleteFunc(slices.Clone(children), func(child string) bool {
			_, reads := lock.Sequence(child, kazooReader)
			return reads && child != own
		})
	}
	return q.Standard.Decide(children, own, 1)
}

// latchName is what Curator calls the nodes of a LeaderLatch.
const latchName = "latch-"

// Below a semaphore's path.
const (
	leasesDir = "leases"
	locksDir  = "locks"
	leaseName = "lease-" // of the nodes below leases
)

// names are those of the nodes of each kind, before their numbers. None ends with another, apart from "lock-".
var names = []struct{ name, kind string }{
	{"__READ__", kindReadWrite},
	{"__WRIT__", kindReadWrite},
	{kazooName, kindKazoo},
	{kazooReader, kindKazoo},
	{latchName, kindElection},
	{"lock-", kindMutex},
}

// kindOf is the kind of lock that a node is of, if any.
func kindOf(child string) string {
	for _, n := range names {
		if _, ours := lock.Sequence(child, n.name); ours {
			return n.kind
		}
	}
	return ""
}

// kindsOf are the kinds of locks that children belong to, in order.
func kindsOf(children []string) []string {
	kinds := map[string]bool{}
	for _, child := range children {
		if kind := kindOf(child); kind != "" {
			kinds[kind] = true
		}
		if child == leasesDir || child == locksDir {
			kinds[kindSemaphore] = true
		}
	}
	return slices.Sorted(maps.Keys(kinds))
}

// kind is what the flags ask for.
func (l *locking) kind() string {
	switch {
	case l.permits != 0:
		return kindSemaphore
	case l.read || l.write:
		return kindReadWrite
	case l.election:
		return kindElection
	}
	return kindMutex
}

// a is a kind with its article.
func a(kind string) string {
	if kind == kindElection {
		return "an " + kind
	}
	return "a " + kind
}

// checkKinds looks for nodes at a lock's path that are of another kind of lock, or of a semaphore with another number of
// permits: they do not keep us out, and we do not keep them out. The error names them. It is checked before
// we queue, so that nobody waits in vain, and again when we hold: of two that come at the same time, the later one
// sees the other. Kinds that were used at the path, and are not now, are only listed.
func (l *locking) checkKinds(ctx context.Context, t *tool, client *framework.Client, path string, warn bool) error {
	children, _, err := client.Children(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, kind := range kindsOf(children) {
		switch {
		case kind == kindSemaphore:
			err = l.checkSemaphore(ctx, t, client, path, warn)
		case kind != l.kind():
			err = conflict("%s is in use at %s, and %s does not exclude its holders", a(kind), path, a(l.kind()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func conflict(format string, args ...any) error {
	return &exit{exitConflict, fmt.Errorf(format, args...)}
}

// checkSemaphore is checkKinds for a path that has, or had, a semaphore.
func (l *locking) checkSemaphore(ctx context.Context, t *tool, client *framework.Client, path string, warn bool) error {
	all, err := leases(ctx, client, path)
	if err != nil {
		return err
	}
	if l.kind() != kindSemaphore {
		if slices.ContainsFunc(all, func(p lock.Participant) bool { return p.Holds }) {
			return conflict("a semaphore is in use at %s, and %s does not exclude its holders", path, a(l.kind()))
		}
		if warn {
			t.say("warning: %s was used as a semaphore, and %s does not exclude its holders", path, a(l.kind()))
		}
		return nil
	}
	for _, p := range all {
		if n := permitsIn(p.Data); n != 0 && n != l.permits {
			return conflict("%s says -permits %d at %s, and all must say the same, not %d", printable(string(p.Data)), n, path, l.permits)
		}
	}
	return nil
}

// permitsMark is before the number of permits in the data of a semaphore's nodes, since it stands nowhere else.
const permitsMark = " permits="

func permitsIn(data []byte) int {
	text := string(data)
	i := strings.LastIndex(text, permitsMark)
	if i < 0 {
		return 0
	}
	n, err := strconv.Atoi(text[i+len(permitsMark):])
	if err != nil {
		return 0
	}
	return n
}
