package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
)

// ls lists holders and waiters.
type ls struct {
	cli.Connection
	json, recursive bool
}

func (l *ls) flags(a *cli.App, fs *pflag.FlagSet) {
	l.Connection.Flags(a, fs)
	fs.BoolVar(&l.json, "json", false, "print JSON")
	fs.BoolVarP(&l.recursive, "recursive", "r", false, "list all locks below the path, which may be /")
}

func (l *ls) main(ctx context.Context, t *cli.App, out io.Writer, args []string) error {
	path, err := pathOf(args)
	if l.recursive && len(args) == 1 && args[0] == "/" {
		path, err = "/", nil
	}
	if err != nil {
		return err
	}
	ctx, stop := cli.Interrupted(ctx)
	defer stop()
	client, err := l.Connect(ctx, t)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	defer client.Close()
	if l.recursive {
		all, err := (&search{client: client, app: t}).below(ctx, path)
		if err != nil {
			return cli.Interruption(ctx, err)
		}
		return printAll(out, all, l.json)
	}
	q, err := look(ctx, client, path)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	if l.json {
		return printJSON(out, q.json())
	}
	return q.print(out)
}

// search finds the locks below a path.
type search struct {
	client *framework.Client
	app    *cli.App
}

// below returns the queues at a path and below it, by path.
func (s *search) below(ctx context.Context, path string) ([]*queue, error) {
	children, stat, err := s.client.Children(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case errors.Is(err, zk.ErrNoAuth):
		s.app.Say("%v", err)
		return nil, nil
	case err != nil:
		return nil, err
	case stat.EphemeralOwner != 0, strings.HasSuffix(path, shadowSuffix), path == "/zookeeper":
		return nil, nil
	}
	if path != "/" && isLock(children) {
		q, err := look(ctx, s.client, path)
		var end *cli.Exit
		if errors.As(err, &end) && end.Code == exitNoLock { // deleted since it was listed
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []*queue{q}, nil
	}
	var all []*queue
	slices.Sort(children)
	for _, child := range children {
		found, err := s.below(ctx, framework.Join(path, child))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// isLock reports whether children belong to a lock. Unlike [kindsOf] it does not mistake a folder
// named locks for a semaphore, which also has leases.
func isLock(children []string) bool {
	return slices.ContainsFunc(children, func(child string) bool { return child == leasesDir || kindOf(child) != "" })
}

func printAll(out io.Writer, all []*queue, asJSON bool) error {
	if asJSON {
		list := []queueJSON{}
		for _, q := range all {
			list = append(list, q.json())
		}
		return printJSON(out, list)
	}
	for _, q := range all {
		if err := q.print(out); err != nil {
			return err
		}
	}
	return nil
}

// queue lists the participants at a lock's path.
type queue struct {
	path, kind string             // the path and the kind of the lock
	all        []lock.Participant // holders first, then waiters in order
}

// Participants returns all participants, for package revocable.
func (q *queue) Participants(context.Context) ([]lock.Participant, error) { return q.all, nil }

// kindUnknown is the kind of an unused lock: it has no node that shows the kind.
const kindUnknown = "unknown"

func noLock(format string, args ...any) error {
	return &cli.Exit{Code: exitNoLock, Err: fmt.Errorf(format, args...)}
}

// look returns the queue at a path.
func look(ctx context.Context, client *framework.Client, path string) (*queue, error) {
	children, stat, err := client.Children(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, noLock("no lock at %s (idle locks disappear after a while; check the path)", path)
	case err != nil:
		return nil, err
	case stat.EphemeralOwner != 0:
		parent, _ := framework.Split(path)
		return nil, cli.UsageError("%s is a node of the lock %s", path, parent)
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

// leases returns the participants of a semaphore. Its nodes do not have the number of permits. The
// client that waits at the leases is the first of the queue, and has created its lease's node after
// its queue node.
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
		return p.Holds && p.SessionID == waiter.SessionID && p.Token > waiter.Token
	}), nil
}

// line is the output for a participant.
type line struct {
	Kind    string    `json:"kind"`  // lock, read, write, lease or term (of leadership)
	State   string    `json:"state"` // holds, leads (a term) or waits
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
			Session: fmt.Sprintf("%#x", uint64(p.SessionID)),
			Token:   p.Token,
		})
	}
	return lines
}

// wants returns what a node queues for: lock, read, write, lease or term.
func (q *queue) wants(p lock.Participant) string {
	dir, name := framework.Split(p.Path)
	for mark, word := range map[string]string{"__READ__": "read", kazooReader: "read", "__WRIT__": "write", leaseName: "lease", latchName: "term"} {
		if _, ours := lock.Sequence(name, mark); ours {
			return word
		}
	}
	if dir == framework.Join(q.path, locksDir) { // the queue for leases
		return "lease"
	}
	return "lock"
}

// queueJSON is what ls --json prints of a lock.
type queueJSON struct {
	Path         string `json:"path"`
	Kind         string `json:"kind"`
	Participants []line `json:"participants"`
}

func (q *queue) json() queueJSON { return queueJSON{q.path, q.kind, q.lines()} }

func printJSON(out io.Writer, v any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

func (q *queue) print(out io.Writer) error {
	if len(q.all) == 0 {
		_, err := fmt.Fprintf(out, "%s: no holders, no waiters\n", cli.Printable(q.path))
		return err
	}
	fmt.Fprintf(out, "%s: %s\n", cli.Printable(q.path), q.kind)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STATE\tKIND\tDATA\tAGE\tSESSION\tTOKEN\tNODE")
	for _, l := range q.lines() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%s\t%d\t%s\n",
			l.State, l.Kind, cli.Printable(l.Data), age(l.Since), l.Session, l.Token, cli.Printable(l.Node))
	}
	return w.Flush()
}
