package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
)

// ls shows who holds and who waits.
type ls struct {
	connection
	json bool
}

func (l *ls) flags(fs *flag.FlagSet) {
	l.connection.flags(fs)
	fs.BoolVar(&l.json, "json", false, "for programs")
}

func (l *ls) main(t *tool, args []string) error {
	path, err := pathOf(args)
	if err != nil {
		return err
	}
	ctx, stop := interrupted()
	defer stop()
	client, err := l.connect(ctx, t)
	if err != nil {
		return interruption(ctx, err)
	}
	defer client.Close()
	q, err := look(ctx, client, path)
	if err != nil {
		return interruption(ctx, err)
	}
	if l.json {
		return q.printJSON(t)
	}
	return q.print(t)
}

// queue is what there is at a lock's path.
type queue struct {
	path, kind string             // of lock
	all        []lock.Participant // holders first, then who waits, in order
}

// Participants lists all, for package revocable.
func (q *queue) Participants(context.Context) ([]lock.Participant, error) { return q.all, nil }

// kindUnknown is that of a lock that nobody uses: no node says what it is.
const kindUnknown = "unknown"

func noLock(format string, args ...any) error {
	return &exit{exitNoLock, fmt.Errorf(format, args...)}
}

// look finds out what kind of lock there is, and who is in its queue.
func look(ctx context.Context, client *framework.Client, path string) (*queue, error) {
	children, stat, err := client.Children(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, noLock("no lock at %s (idle locks disappear after a while; check the path)", path)
	case err != nil:
		return nil, err
	case stat.EphemeralOwner != 0:
		parent, _ := framework.Split(path)
		return nil, usageError("%s is a node of the lock %s", path, parent)
	}
	q := &queue{path: path, kind: strings.Join(kindsOf(children), ", ")}
	if q.kind == "" && len(children) > 0 {
		slices.Sort(children)
		return nil, noLock("%s is no lock; below it: %s", path, strings.Join(children, ", "))
	}
	if q.kind == "" {
		q.kind = kindUnknown
	}
	var all []lock.Participant
	for _, kind := range kindsOf(children) {
		some, err := participants(ctx, client, kind, path)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b lock.Participant) int {
		switch {
		case a.Holds == b.Holds:
			return 0
		case a.Holds:
			return -1
		}
		return 1
	})
	q.all = all
	return q, nil
}

func participants(ctx context.Context, client *framework.Client, kind, path string) ([]lock.Participant, error) {
	switch kind {
	case kindSemaphore:
		return leases(ctx, client, path)
	case kindReadWrite:
		l, err := rwlock.New(client, path)
		if err != nil {
			return nil, err
		}
		return l.Participants(ctx)
	case kindKazoo:
		l, err := lock.New(client, path, kazooName, kazooQueue{})
		if err != nil {
			return nil, err
		}
		return l.Participants(ctx)
	case kindElection:
		l, err := lock.New(client, path, latchName, nil)
		if err != nil {
			return nil, err
		}
		return l.Participants(ctx)
	case kindMutex:
		m, err := mutex.New(client, path)
		if err != nil {
			return nil, err
		}
		return m.Participants(ctx)
	default:
		return nil, nil
	}
}

// leases are those of a semaphore. Its nodes do not say how many there may be, but who waits at the
// leases is first in its queue, and has made its lease's node after that.
func leases(ctx context.Context, client *framework.Client, path string) ([]lock.Participant, error) {
	const many = 1 << 30
	s, err := semaphore.New(client, path, many)
	if err != nil {
		return nil, err
	}
	all, err := s.Participants(ctx)
	if err != nil {
		return nil, err
	}
	first := slices.IndexFunc(all, func(p lock.Participant) bool { return !p.Holds })
	if first < 0 {
		return all, nil
	}
	waiter := all[first]
	return slices.DeleteFunc(all, func(p lock.Participant) bool {
		return p.Holds && p.Session == waiter.Session && p.Token > waiter.Token
	}), nil
}

// line is what ls says of a participant.
type line struct {
	Kind    string    `json:"kind"`  // what it wants: lock, read, write, lease or term (of leadership)
	State   string    `json:"state"` // holds, leads (that is to hold a term) or waits
	Node    string    `json:"node"`
	Data    string    `json:"data"`
	Since   time.Time `json:"since"`
	Session string    `json:"session"`
	Token   int64     `json:"token"`
}

func (q *queue) lines() []line {
	lines := []line{}
	for _, p := range q.all {
		kind, state := q.wants(p), "waits"
		switch {
		case p.Holds && kind == "term":
			state = "leads"
		case p.Holds:
			state = "holds"
		}
		lines = append(lines, line{
			Kind:    kind,
			State:   state,
			Node:    p.Path,
			Data:    string(p.Data),
			Since:   p.Since,
			Session: fmt.Sprintf("%#x", uint64(p.Session)),
			Token:   p.Token,
		})
	}
	return lines
}

// wants is what a node is in a queue for: lock, read, write, lease or term.
func (q *queue) wants(p lock.Participant) string {
	dir, name := framework.Split(p.Path)
	for mark, word := range map[string]string{"__READ__": "read", kazooReader: "read", "__WRIT__": "write", leaseName: "lease", latchName: "term"} {
		if _, ours := lock.Sequence(name, mark); ours {
			return word
		}
	}
	if dir == framework.Join(q.path, locksDir) { // who queues for a lease
		return "lease"
	}
	return "lock"
}

func (q *queue) printJSON(t *tool) error {
	encoder := json.NewEncoder(t.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Path         string `json:"path"`
		Kind         string `json:"kind"`
		Participants []line `json:"participants"`
	}{q.path, q.kind, q.lines()})
}

func (q *queue) print(t *tool) error {
	if len(q.all) == 0 {
		_, err := fmt.Fprintf(t.out, "%s: nobody holds, nobody waits\n", q.path)
		return err
	}
	fmt.Fprintf(t.out, "%s: %s\n", q.path, q.kind)
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STATE\tKIND\tDATA\tAGE\tSESSION\tTOKEN\tNODE")
	for _, l := range q.lines() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%s\t%d\t%s\n", l.State, l.Kind, printable(l.Data), age(l.Since), l.Session, l.Token, l.Node)
	}
	return w.Flush()
}

// printable is data that a terminal can be shown.
func printable(data string) string {
	if quoted := strconv.Quote(data); quoted != `"`+data+`"` || data == "" {
		return quoted
	}
	return data
}
