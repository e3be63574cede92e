package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/internal/recipe"
	"github.com/gocurator/curator/recipes/lock/internal/view"
)

// Locker is a lock that can be combined with others (package multilock) or made revocable (package
// revocable): a [Queue], a mutex.Mutex, either side of an rwlock.Lock, or a semaphore.Semaphore.
type Locker interface {
	Acquire(ctx context.Context) (*Hold, error)
	TryAcquire(ctx context.Context) (*Hold, error)
}

// Queue is a queue for the leases at one path. All contenders, in this process and others, must use
// the same name, driver and number of leases. A Queue need not be closed.
//
// All methods are safe for concurrent use.
type Queue struct {
	client *framework.Client
	path   string
	name   string
	driver Driver
	place  placeKey
	cfg    config
	views  *view.Views
	order  view.Order

	observer *Observer // nil: there is none
	first    sync.Once // see lookAtView

	leases wait.Value[int] // how many can hold at a time

	// The mutexes of this package are locked in this order: Queue.mu, node.mu, and those of package
	// view. No function of a user is called, and nothing is sent, while one of the first two is
	// locked.
	mu     sync.Mutex      // guards what follows
	used   time.Time       // when the last acquire began
	nodes  map[string]bool // names of the nodes of this Queue
	others int             // nodes of others, when the queue was last looked at
	line   line            // of the goroutines of this Queue, with retention
}

// New returns the queue at path. It sends no request.
//
// The names of the queue's nodes are name, such as "lock-", and a number. driver decides which
// nodes hold; nil means [Standard].
//
// Errors are
//   - [framework.ErrBadPath] if path is invalid or the root;
//   - [framework.ErrBadArgument] if client is nil, name is empty or not a valid name of a node, an
//     option is invalid, or options cannot be combined.
func New(client *framework.Client, path, name string, driver Driver, opts ...Option) (*Queue, error) {
	q, err := newQueue(client, path, name, driver, opts)
	return q, operr.New("lock", path, err)
}

func newQueue(client *framework.Client, path, name string, driver Driver, opts []Option) (*Queue, error) {
	if err := recipe.Check(client, path); err != nil {
		return nil, err
	}
	if err := framework.ValidatePath("/" + name); err != nil || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("%w: invalid node name %q", framework.ErrBadArgument, name)
	}
	if driver == nil {
		driver = Standard{}
	}
	cfg := config{
		data:      slices.Clone(engine.Of(client).DefaultData()), // a driver may change it
		maxLeases: 1, policy: engine.Of(client).ErrorPolicy(),
		recipe: locking.Settings[*Queue]{Noun: "lock", Numbered: isStandard(driver)},
	}
	if err := opt.Apply(&cfg, opts); err != nil {
		return nil, err
	}
	var err error
	if cfg.nesting, err = nestingOf(cfg); err != nil {
		return nil, err
	}
	if err := checkDelay(cfg, driver, name); err != nil {
		return nil, err
	}
	q := &Queue{
		client: client,
		path:   path,
		name:   name,
		driver: driver,
		place:  newPlace(client, path, name),
		cfg:    cfg,
		views:  view.Of(client),
		order:  newOrder(driver, name, cfg.delay > 0),

		observer: observerOf(client),

		nodes: make(map[string]bool),
	}
	q.setMaxLeases(cfg.maxLeases)
	return q, nil
}

// checkDelay returns framework.ErrBadArgument if a lock delay or retention is not for this driver or
// name, or not with the other options.
func checkDelay(cfg config, driver Driver, name string) error {
	simple := cfg.nesting != another && isStandard(driver)
	switch {
	case cfg.retention > 0 && !simple:
		return fmt.Errorf("%w: retention requires one lease and the Standard driver", framework.ErrBadArgument)
	case cfg.delay > 0 && !simple:
		return fmt.Errorf("%w: a lock delay requires one lease and the Standard driver", framework.ErrBadArgument)
	case cfg.delay > 0 && cfg.retention > 0:
		return fmt.Errorf("%w: a lock delay and retention cannot be combined", framework.ErrBadArgument)
	case cfg.delay > 0 && occursInMarks(name):
		return fmt.Errorf("%w: node name %q with a lock delay: it occurs in the names of marks", framework.ErrBadArgument, name)
	}
	return nil
}

// Path returns the parent path of the queue's nodes.
func (q *Queue) Path() string { return q.path }

func (q *Queue) maxLeases() int { return q.leases.Load() }

func (q *Queue) setMaxLeases(n int) {
	if n != q.maxLeases() {
		q.leases.Set(func(leases *int) { *leases = n })
	}
}

// keeps reports whether nodes are handed over between goroutines of this Queue, and kept for the
// next Acquire.
func (q *Queue) keeps() bool { return q.cfg.retention > 0 }

func (q *Queue) opError(op string, err error) error { return operr.New(op, q.path, err) }

// children returns the children that belong to this lock, in the driver's order, with the marks of
// a lock delay behind them: from the view if it can say, or from a list. Some of them may be gone.
// client is this Queue's, or a view of it.
func (q *Queue) children(ctx context.Context, client *framework.Client, v *view.View) ([]string, error) {
	if v != nil {
		if err := v.Await(ctx); err != nil {
			return nil, err
		}
		if children, ok, err := v.Names(q.order); ok {
			return children, err
		}
	}
	return q.list(ctx, client)
}

// list returns the children that belong to this lock, in the driver's order.
func (q *Queue) list(ctx context.Context, client *framework.Client) ([]string, error) {
	all, err := q.listAll(ctx, client)
	if err != nil {
		return nil, err
	}
	return q.sort(all)
}

// listAll returns all children of the path. A path that does not exist has none.
func (q *Queue) listAll(ctx context.Context, client *framework.Client) ([]string, error) {
	all, _, err := client.Children(ctx, q.path)
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return all, err
}

// soon: a Queue that is used again within this time looks in a view instead of listing. A Queue
// whose waiters would have to watch more than maxWatched nodes, and one with retention, get a view
// at the first acquire.
const soon = time.Second

// maxWatched is how many nodes are watched one by one. To wait for one of more nodes, one watch on
// their parent is cheaper, although it fires for new nodes too.
const maxWatched = 4

// view returns the view to acquire with, which may have to be waited for. It is nil if the path is
// to be listed. A view that exists is used by all; a new one begins if the Queue is worth it.
func (q *Queue) view(session *framework.Session) *view.View {
	now, leases := time.Now(), q.maxLeases()
	q.mu.Lock()
	worth := q.keeps() || leases > maxWatched || now.Sub(q.used) < soon
	begin := worth && q.others <= view.MaxOthers
	q.used = now
	own := len(q.nodes)
	q.mu.Unlock()
	return q.views.Get(q.client, session, q.path, begin, own)
}

// isLong reports whether so many others are in the queue that a view costs more than lists.
func (q *Queue) isLong() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.others > view.MaxOthers
}

// saw notes how many nodes of others are among children.
func (q *Queue) saw(children []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.others = len(children) - len(q.nodes)
}

// joined notes a node of this Queue.
func (q *Queue) joined(n *node) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.nodes[n.Name()] = true
}

// forget forgets a node that is gone. If it had the turn, the first goroutine in line gets it.
func (q *Queue) forget(n *node) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.nodes, n.Name())
	if q.line.node == n {
		q.line.next(nil)
	}
}

// notFree returns ErrNotAcquired. It says so if the first of children is a node of this Queue.
func (q *Queue) notFree(children []string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cfg.nesting != another && len(children) > 0 && q.nodes[children[0]] {
		return q.heldHere()
	}
	return ErrNotAcquired
}

// heldHere returns ErrNotAcquired for a lock that is held from the same Queue. A user of Java's
// Curator may have used a context from outside.
func (q *Queue) heldHere() error {
	if q.cfg.nesting == reenters {
		return errNotReentered
	}
	return errHeldHere
}

// Participant is a holder or a waiter.
type Participant struct {
	Path      string    // path of the node
	Holds     bool      // true for a holder, at the time of the read
	Data      []byte    // data of the node: "host:pid" without [WithData]
	SessionID int64     // session that owns the node
	Token     int64     // the fencing token; a downgraded reader's is higher than the result of its FencingToken
	Since     time.Time // time at which the node was created, by the server's clock

	client *framework.Client // of the Queue
}

// Participants lists holders and waiters in the order of the queue, as the client's server knows
// them at the time of the call. It omits nodes that are deleted at the same time. If the path does
// not exist, the list is empty.
//
// Errors are
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrBadArgument] if the client is a view of nil or of another client's session;
//   - [framework.ErrNotCompressed] if a client [framework.WithCompression] cannot decompress a
//     node's data;
//   - [ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the error of a custom [Driver] if it returns one;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to read a node.
func (q *Queue) Participants(ctx context.Context) ([]Participant, error) {
	ps, err := q.participants(ctx)
	return ps, q.opError("participants", err)
}

func (q *Queue) participants(ctx context.Context) ([]Participant, error) {
	children, err := q.list(ctx, q.client) // a view may be behind the server
	if err != nil {
		return nil, err
	}
	nodes, marks := q.split(children)
	all, errs := make([]Participant, len(nodes)), make([]error, len(nodes))
	together(len(nodes), func(i int) { all[i], errs[i] = q.participant(ctx, nodes[i]) })
	leases := q.maxLeases()
	var found []Participant
	for i, p := range all {
		if errors.Is(errs[i], zk.ErrNoNode) {
			continue
		}
		turn, err := q.driver.Decide(Line{nodes, nodes[i], leases})
		if err = cmp.Or(errs[i], err); err != nil {
			return nil, err
		}
		p.Holds = turn.Held && !delayed(nodes[i], marks)
		found = append(found, p)
	}
	return found, nil
}

// participant reads the node of a child.
func (q *Queue) participant(ctx context.Context, child string) (Participant, error) {
	path := framework.Join(q.path, child)
	data, stat, err := q.client.Get(ctx, path)
	if err != nil {
		return Participant{}, err
	}
	return Participant{
		Path:      path,
		Data:      data,
		SessionID: stat.EphemeralOwner,
		Token:     stat.Czxid,
		Since:     time.UnixMilli(stat.Ctime),
		client:    q.client,
	}, nil
}
