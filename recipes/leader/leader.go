package leader

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/ctxerr"
	"github.com/gocurator/curator/recipes/lock"
)

var (
	// ErrNoLeader means that nobody leads: nobody has joined the election, or all have left.
	ErrNoLeader = errors.New("no leader")

	// ErrResigned is the cause of a term's end when the leader has given it up itself.
	ErrResigned = errors.New("resigned")
)

// What Curator calls the nodes of a LeaderLatch, and of the mutex in a LeaderSelector.
const (
	latchName    = "latch-"
	selectorName = "lock-"
)

// maxID is the longest id in bytes: far below what any server takes as a request.
const maxID = 1 << 16

// Option configures an [Election]. [New] refuses bad values with [lock.ErrBadArgument].
type Option func(*config) error

type config struct {
	id       string
	selector bool
	lock     []lock.Option
}

// WithID sets the id that others see of our candidates, such as a host name or the address
// of the leader: any text of at most 64 KiB in UTF-8. Ids need not be unique. The default is
// empty; with [AsSelector] it is the client's default data, see [framework.WithDefaultData].
func WithID(id string) Option {
	return func(c *config) error {
		if len(id) > maxID || !utf8.ValidString(id) {
			return fmt.Errorf("%w: an id of %d bytes; it must be UTF-8 of at most %d", lock.ErrBadArgument, len(id), maxID)
		}
		c.id = id
		return nil
	}
}

// AsSelector takes part in the elections of LeaderSelector instead of those of LeaderLatch. Its nodes
// are those of a mutex: whoever holds a mutex at the path leads, too.
func AsSelector() Option {
	return func(c *config) error {
		c.selector = true
		return nil
	}
}

// WithErrorPolicy sets whether a suspended connection ends a term. The default is the
// client's policy.
func WithErrorPolicy(p connstate.ErrorPolicy) Option {
	return func(c *config) error {
		c.lock = append(c.lock, lock.WithErrorPolicy(p))
		return nil
	}
}

// Election is an election at one path. What a leader has is a [Term]; an Election need not be
// closed. All methods are safe for concurrent use: each call of Campaign, Lead and Run is a
// candidate of its own, and they exclude each other as processes do.
type Election struct {
	client *framework.Client
	queue  *lock.Queue
	path   string
	name   string // of nodes: latchName or selectorName
	id     string
}

// New makes an election at path. Nothing is sent. Errors are [lock.ErrBadPath] and
// [lock.ErrBadArgument].
func New(client *framework.Client, path string, opts ...Option) (*Election, error) {
	var cfg config
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("leader: %w: nil option", lock.ErrBadArgument)
		}
		if err := opt(&cfg); err != nil {
			return nil, fmt.Errorf("leader: %w", err)
		}
	}
	name := latchName
	if cfg.selector {
		name = selectorName
	}
	// A context that comes from a term does not re-enter: each Campaign is a candidate.
	cfg.lock = append(cfg.lock, lock.WithoutReentry())
	if cfg.id != "" || !cfg.selector {
		cfg.lock = append(cfg.lock, lock.WithData([]byte(cfg.id)))
	}
	queue, err := lock.New(client, path, name, lock.Standard{}, cfg.lock...)
	if err != nil {
		return nil, err
	}
	id := cfg.id
	if cfg.selector && id == "" {
		id = string(client.DefaultData())
	}
	return &Election{client: client, queue: queue, path: path, name: name, id: id}, nil
}

// Path is the path of the election.
func (e *Election) Path() string { return e.path }

// ID is what others see of our candidates.
func (e *Election) ID() string { return e.id }

// Campaign joins the election and waits until it leads. Whoever has a [Term] must
// [Term.Resign] it.
//
// If the connection or the session is lost while it waits, Campaign joins again, at the
// end of the queue if its node is gone. It ends when ctx is done, with the error of ctx, which also wraps
// zk.ErrNoServer if there was no connection then; when the client is closed, with
// [lock.ErrClosed]; and with errors that a retry does not help, such as zk.ErrNoAuth and
// [lock.ErrSequenceExhausted]. After an error no node of ours stays, even if the server creates
// it later.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	hold, err := e.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("campaign: %w", err)
	}
	return newTerm(e, hold), nil
}

// acquire waits for the lease that is the leadership.
func (e *Election) acquire(ctx context.Context) (*lock.Hold, error) {
	ctx = framework.InSession(ctx, nil) // the values of another hold's context name a session, which may be over
	var p pauses
	for {
		began := time.Now()
		hold, err := e.queue.Acquire(ctx)
		switch {
		case err == nil:
			return hold, nil
		case ctx.Err() != nil:
			return nil, e.givenUp(ctx, err)
		case !transient(err):
			return nil, err
		}
		e.client.Logger().Info("candidate joins again", "path", e.path, "reason", err)
		if ended := p.wait(ctx, e.client, time.Since(began)); ended != nil {
			return nil, e.givenUp(ctx, fmt.Errorf("%w: %w", ended, err))
		}
	}
}

// givenUp adds to the error of a wait whose context is done that it is, if the error does not say so, and that no server
// could be reached, if that is so: it must not be mistaken for a wait for others.
func (e *Election) givenUp(ctx context.Context, err error) error {
	if !errors.Is(err, ctx.Err()) { // both have ended
		err = fmt.Errorf("%w: %w", ctxerr.Of(ctx), err)
	}
	if e.client.State().IsConnected() || errors.Is(err, zk.ErrNoServer) {
		return err
	}
	return fmt.Errorf("%w: %w", err, zk.ErrNoServer)
}

// transient reports whether something that failed with err may succeed when it is begun anew: with
// another connection, another session, or another node.
func transient(err error) bool {
	// A missing node is the election's path that was deleted: it is made again.
	return clientapi.MayPass(err) || errors.Is(err, lock.ErrLost) || errors.Is(err, zk.ErrNoNode)
}

// pauses are those between tries. They grow while tries fail soon after they began.
type pauses struct{ next *backoff.ExponentialBackOff }

const (
	firstPause = 50 * time.Millisecond
	lastPause  = 3 * time.Second
)

// wait pauses after a try that took this long, but not once the client is closed. The error is that of ctx.
func (p *pauses) wait(ctx context.Context, client *framework.Client, took time.Duration) error {
	if p.next == nil || took > lastPause {
		p.next = backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(firstPause),
			backoff.WithMaxInterval(lastPause),
			backoff.WithMaxElapsedTime(0)) // for ever
	}
	return clientapi.Sleep(ctx, client, p.next.NextBackOff())
}
