// Package queue is the queue under all lock recipes: nodes of ours in it, a picture of who is ahead, and leases with their holds.
// Package lock is what users see of it, and documents it. Recipes of this module convert its types: a *lock.Hold is a *queue.Hold.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/recipes/internal/queue/view"
)

// Queue is a lock.Queue.
type Queue struct {
	client *framework.Client
	base   string
	name   string
	driver Driver
	cfg    Config
	views  *view.Views
	local  localQueue // the zero value lends nothing
	order  view.Order

	leases wait.Value[int] // how many can hold at a time

	mu     sync.Mutex      // guards what follows
	used   time.Time       // when the last acquire began
	nodes  map[string]bool // names of the nodes of this Queue
	others int             // nodes of others, when the queue was last looked at
}

// Option is a lock.Option.
type Option = func(*Config) error

// Config is what options set.
type Config struct {
	Data      []byte // of our nodes; nil: the client's default
	MaxLeases int
	MaxHold   time.Duration // 0: no limit
	Policy    connstate.ErrorPolicy
	Lending   Lending
	Async     bool // Release does not wait for the answer

	// Only recipes of this module set what follows.

	Noun   string // what a lease is, for the log
	Plain  bool   // a hold's context is like any other: an acquire with it does not re-enter
	Silent bool   // no observer is notified
	Ahead  *Queue // nil, or the queue that must be empty for TryAcquire; Acquire ignores it

	// Sequential says of a driver that its nodes have the name of the queue and the next number, as those of Standard.
	Sequential bool
}

// New makes a queue as lock.New does. The error names no operation: the recipe knows which.
func New(client *framework.Client, path, name string, driver Driver, opts ...Option) (*Queue, error) {
	if err := follow.Check(client, path); err != nil {
		return nil, err
	}
	if err := framework.ValidatePath("/" + name); err != nil || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("%w: node name %q", framework.ErrBadArgument, name)
	}
	if driver == nil {
		driver = Standard{}
	}
	_, standard := driver.(Standard)
	cfg := Config{MaxLeases: 1, Policy: client.ErrorPolicy(), Noun: "lock", Sequential: standard}
	if err := opt.Apply(&cfg, opts); err != nil {
		return nil, err
	}
	if cfg.Lending != (Lending{}) && (cfg.Plain || !standard || cfg.MaxLeases > 1) {
		return nil, fmt.Errorf("%w: local hand-off and retention are for one lease, the Standard driver and re-entry", framework.ErrBadArgument)
	}
	if l := &cfg.Lending; l.Times == 0 && l.Keep > 0 {
		l.Times, l.Within = math.MaxInt, lendLimit
	}
	q := &Queue{
		client: client,
		base:   path,
		name:   name,
		driver: driver,
		cfg:    cfg,
		views:  view.Of(client),
		local:  localQueue{Lending: cfg.Lending},
		order:  newOrder(driver, name),
		nodes:  make(map[string]bool),
	}
	q.SetMaxLeases(cfg.MaxLeases)
	return q, nil
}

// Path is the parent path of the queue's nodes.
func (q *Queue) Path() string { return q.base }

// MaxLeases is how many can hold at a time.
func (q *Queue) MaxLeases() int {
	n, _ := q.leases.Get()
	return n
}

// SetMaxLeases changes how many can hold at a time, for this Queue only: all Queues at the path must be
// changed. A higher number wakes waiters. With a lower number no holder loses its lease; with 0 nobody acquires until the
// number is higher. n must not be negative, and the Queue must have neither local hand-off nor retention.
func (q *Queue) SetMaxLeases(n int) {
	if n != q.MaxLeases() {
		q.leases.Set(func(leases *int) { *leases = n })
	}
}

func (q *Queue) opError(op string, err error) error { return follow.OpError(op, q.base, err) }

// children returns the children that belong to this lock, in the driver's order: from the view if it can say, or from a list.
// Some of them may be gone.
func (q *Queue) children(ctx context.Context, v *view.View) ([]string, error) {
	if v != nil {
		if err := v.Await(ctx); err != nil {
			return nil, err
		}
		if children, ok, err := v.Names(q.order); ok {
			return children, err
		}
	}
	return q.list(ctx)
}

// list returns the children that belong to this lock, in the driver's order. A path that does not exist has none.
func (q *Queue) list(ctx context.Context) ([]string, error) {
	all, _, err := q.client.Children(ctx, q.base)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	return view.Sort(q.order, all)
}

// soon: a Queue that is used again within this time looks in a view instead of listing. A Queue whose waiters would have to
// watch more than maxWatched nodes, and one with a local hand-off, get a view at the first acquire.
const soon = time.Second

// maxWatched is how many nodes are watched one by one. To wait for one of more nodes, one watch on their parent
// is cheaper, although it fires for new nodes too.
const maxWatched = 4

// view returns the view to acquire with, which may have to be waited for. It is nil if the path is to be listed. A view that
// is there is used by all; a new one begins if the Queue is worth it.
func (q *Queue) view(session *framework.Session) *view.View {
	now, leases := time.Now(), q.MaxLeases()
	q.mu.Lock()
	worth := q.local.lends() || leases > maxWatched || now.Sub(q.used) < soon
	begin := worth && q.others <= view.MaxOthers
	q.used = now
	own := len(q.nodes)
	q.mu.Unlock()
	return q.views.Get(q.client, session, q.base, begin, own)
}

// isLong reports whether so many others are in the queue that a view costs more than lists.
func (q *Queue) isLong() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.others > view.MaxOthers
}

// joined notes a node of this Queue.
func (q *Queue) joined(n *node) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.nodes[n.Name()] = true
}

// left forgets a node that has ended. If it was used or kept, another goroutine has the turn.
func (q *Queue) left(n *node) {
	q.mu.Lock()
	delete(q.nodes, n.Name())
	q.mu.Unlock()
	q.local.over(n)
}

// notFree is ErrNotAcquired. It says so if the first of children is ours: whoever comes from Curator for Java expects to re-enter.
func (q *Queue) notFree(children []string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.cfg.Plain && len(children) > 0 && q.nodes[children[0]] {
		return errHeldHere
	}
	return ErrNotAcquired
}

// Participant is a lock.Participant. Both are aliases, so that each page shows the fields.
type Participant = struct {
	Path    string
	Holds   bool
	Data    []byte
	Session int64
	Token   int64
	Since   time.Time
}

// Participants is that of lock.Queue.
func (q *Queue) Participants(ctx context.Context) ([]Participant, error) {
	ps, err := q.participants(ctx)
	return ps, q.opError("participants", err)
}

func (q *Queue) participants(ctx context.Context) ([]Participant, error) {
	children, err := q.children(ctx, q.views.Lookup(q.client, q.base))
	if err != nil {
		return nil, err
	}
	all, errs := make([]Participant, len(children)), make([]error, len(children))
	var wg sync.WaitGroup
	for i, child := range children {
		wg.Go(func() { all[i], errs[i] = q.participant(ctx, child) }) // ends with the answer
	}
	wg.Wait()
	leases := q.MaxLeases()
	var found []Participant
	for i, p := range all {
		if errors.Is(errs[i], zk.ErrNoNode) {
			continue
		}
		turn, err := q.driver.Decide(children, children[i], leases)
		if err = cmp.Or(errs[i], err); err != nil {
			return nil, err
		}
		p.Holds = turn.Held
		found = append(found, p)
	}
	return found, nil
}

// participant reads the node of a child.
func (q *Queue) participant(ctx context.Context, child string) (Participant, error) {
	path := framework.Join(q.base, child)
	data, stat, err := q.client.Get(ctx, path)
	if err != nil {
		return Participant{}, err
	}
	return ParticipantOf(path, data, stat), nil
}

// ParticipantOf is the participant with a node. Who holds is not known from that.
func ParticipantOf(path string, data []byte, stat *zk.Stat) Participant {
	return Participant{
		Path:    path,
		Data:    data,
		Session: stat.EphemeralOwner,
		Token:   stat.Czxid,
		Since:   time.UnixMilli(stat.Ctime),
	}
}
