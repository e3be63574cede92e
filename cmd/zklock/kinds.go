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

	"github.com/gocurator/curator/cmd/internal/cli"
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

// Names of kazoo's nodes.
const (
	kazooName   = "__lock__"  // Lock and WriteLock
	kazooReader = "__rlock__" // ReadLock
)

// kazooQueue is the queue of kazoo's locks, which zklock only lists. Readers hold together.
type kazooQueue struct{ lock.Standard }

// SortKey returns the sequence number.
func (q kazooQueue) SortKey(child, _ string) (key string, ours bool) {
	if key, ours = q.Standard.SortKey(child, kazooName); ours {
		return key, true
	}
	return q.Standard.SortKey(child, kazooReader)
}

// Decide lets a reader wait for the participants ahead except readers, and others for all
// participants ahead.
func (q kazooQueue) Decide(l lock.Line) (lock.Decision, error) {
	if _, reads := lock.Sequence(l.Own, kazooReader); reads {
		l.Children = slices.DeleteFunc(slices.Clone(l.Children), func(child string) bool {
			_, reads := lock.Sequence(child, kazooReader)
			return reads && child != l.Own
		})
	}
	return q.Standard.Decide(l)
}

// latchName is the name of the nodes of a LeaderLatch.
const latchName = "latch-"

// Names of the nodes below a semaphore's path.
const (
	leasesDir = "leases"
	locksDir  = "locks"
	leaseName = "lease-" // nodes below leases
)

// names lists the names of the nodes of each kind, before their numbers. None is the end of
// another, apart from "lock-".
var names = []struct{ name, kind string }{
	{"__READ__", kindReadWrite},
	{"__WRIT__", kindReadWrite},
	{kazooName, kindKazoo},
	{kazooReader, kindKazoo},
	{latchName, kindElection},
	{"lock-", kindMutex},
}

// kindOf returns the kind of lock that a node belongs to, or "".
func kindOf(child string) string {
	for _, n := range names {
		if _, ours := lock.Sequence(child, n.name); ours {
			return n.kind
		}
	}
	return ""
}

// kindsOf returns the kinds of locks that children belong to, in order.
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

// kind returns the kind that the flags select.
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

// a returns a kind with its article.
func a(kind string) string {
	if kind == kindElection {
		return "an " + kind
	}
	return "a " + kind
}

// checkKinds looks for nodes at a lock's path of another kind of lock, or of a semaphore with
// another number of permits: such holders and this one do not exclude each other. The error names
// them. It is called before zklock queues, and again when it holds: of two that start at the same
// time, the later one sees the other. Kinds that were used at the path before are only printed.
func (l *locking) checkKinds(ctx context.Context, t *cli.App, client *framework.Client, path string, warn bool) error {
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
	return &cli.Exit{Code: exitConflict, Err: fmt.Errorf(format, args...)}
}

// checkSemaphore returns an error if this lock and the semaphore at path do not exclude each other.
// If the semaphore has no holders, and this lock is of another kind, it only prints a warning.
func (l *locking) checkSemaphore(ctx context.Context, t *cli.App, client *framework.Client, path string, warn bool) error {
	all, err := leases(ctx, client, path)
	if err != nil {
		return err
	}
	if l.kind() != kindSemaphore {
		if slices.ContainsFunc(all, func(p lock.Participant) bool { return p.Holds }) {
			return conflict("a semaphore is in use at %s, and %s does not exclude its holders", path, a(l.kind()))
		}
		if warn {
			t.Say("warning: %s was used as a semaphore, and %s does not exclude its holders", path, a(l.kind()))
		}
		return nil
	}
	for _, p := range all {
		if n := permitsIn(p.Data); n != 0 && n != l.permits {
			return conflict("--permits %d differs from the --permits %d of %s at %s", l.permits, n, cli.Printable(string(p.Data)), path)
		}
	}
	return nil
}

// permitsMark precedes the number of permits in the data of a semaphore's nodes. No other node has
// the number.
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
