package leader

import (
	"cmp"
	"context"
	"errors"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/recipes/internal/queue"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
)

// ErrNoLeader means that nobody leads: nobody has joined the election, or all have left.
var ErrNoLeader = errors.New("no leader")

// What Curator calls the nodes of a LeaderLatch, and of the mutex in a LeaderSelector.
const (
	latchName    = "latch-"
	selectorName = "lock-"
)

// maxID is the longest id in bytes: far below what any server takes as a request.
const maxID = 1 << 16

// Option configures an [Election]. [New] refuses bad values with [framework.ErrBadArgument].
type Option func(*config) error

type config struct {
	id   string
	name string // of nodes: latchName or selectorName
	lock []lock.Option
}

// WithID sets the id that others see of our candidates, such as a host name or the address of the leader: any text of at most 64
// KiB in UTF-8. Ids need not be unique. The default is empty; with [AsSelector] it is the client's default data, see
// [framework.WithDefaultData].
func WithID(id string) Option {
	valid := len(id) <= maxID && utf8.ValidString(id)
	return opt.Checked(valid, func(c *config) { c.id = id }, "an id of %d bytes; it must be UTF-8 of at most %d", len(id), maxID)
}

// AsSelector takes part in the elections of LeaderSelector instead of those of LeaderLatch. Its nodes are those of a mutex:
// whoever holds a mutex at the path leads, too.
func AsSelector() Option { return opt.Set(func(c *config) { c.name = selectorName }) }

// WithErrorPolicy sets whether a suspended connection ends a term. The default is the client's policy.
func WithErrorPolicy(p connstate.ErrorPolicy) Option {
	return opt.Set(func(c *config) { c.lock = append(c.lock, lock.WithErrorPolicy(p)) })
}

// Election is an election at one path. What a leader has is a [Term]; an Election need not be closed. All methods are safe for
// concurrent use: each call of Campaign, Lead and Run is a candidate of its own, and they exclude each other as processes do.
type Election struct {
	client *framework.Client
	queue  *queue.Queue
	path   string
	name   string
	id     string
}

// New makes an election at path. Nothing is sent. Errors are [framework.ErrBadPath] and [framework.ErrBadArgument].
func New(client *framework.Client, path string, opts ...Option) (_ *Election, err error) {
	defer func() { err = follow.OpError("election", path, err) }()
	cfg := config{name: latchName}
	if err := cmp.Or(opt.Apply(&cfg, opts), follow.Check(client, path)); err != nil {
		return nil, err
	}
	if cfg.id == "" && cfg.name == selectorName {
		cfg.id = string(client.DefaultData())
	}
	// A context that comes from a term does not re-enter: each Campaign is a candidate.
	own := opt.Set(func(c *queue.Config) { c.Plain, c.Noun, c.Data = true, "leadership", []byte(cfg.id) })
	candidates, err := queue.New(client, path, cfg.name, nil, append(cfg.lock, own)...)
	if err != nil {
		return nil, err
	}
	return &Election{client, candidates, path, cfg.name, cfg.id}, nil
}

// Path is the path of the election.
func (e *Election) Path() string { return e.path }

// ID is what others see of our candidates.
func (e *Election) ID() string { return e.id }

// Campaign joins the election and waits until it leads. Whoever has a [Term] must [Term.Release] it.
//
// If the connection or the session is lost while it waits, Campaign joins again, at the end of the queue if its node is gone. It
// ends when ctx is done, with the error of ctx, which also wraps zk.ErrNoServer if there was no connection then; when the client
// is closed, with [framework.ErrClosed]; and with errors that a retry does not help, such as zk.ErrNoAuth and
// [lock.ErrSequenceExhausted]. After an error we remove our node, also if the server carries out our create request only after
// Campaign has returned.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	term, err := e.campaign(ctx)
	return term, e.opError("campaign", err)
}

func (e *Election) campaign(ctx context.Context) (*Term, error) {
	ctx = framework.InSession(ctx, nil) // the values of another hold's context name a session, which may be over
	pauses := wait.Pauses{First: engine.RefusedPause, Last: lastPause}
	for {
		hold, err := e.queue.Acquire(ctx)
		if err == nil {
			return &Term{hold, e.id}, nil
		}
		if ctx.Err() == nil {
			if !joinsAgain(err) {
				return nil, err
			}
			if e.client.State().IsConnected() { // otherwise it cannot join yet
				e.client.Logger().Info("candidate joins again", "path", e.path, "reason", err)
			}
			_ = engine.Sleep(ctx, engine.Of(e.client), pauses.Next()) // if ctx ends, GaveUp says so
		}
		if ctx.Err() != nil {
			return nil, engine.Of(e.client).GaveUp(ctx, follow.Bare(err))
		}
	}
}

func (e *Election) opError(op string, err error) error { return follow.OpError(op, e.path, err) }

// joinsAgain reports whether a candidate that failed with err may succeed when it begins anew: with another connection, another
// session, or another node.
func joinsAgain(err error) bool {
	// A missing node is the election's path that was deleted: it is made again.
	return retry.MayPass(err) || errors.Is(err, framework.ErrLost) || errors.Is(err, zk.ErrNoNode)
}
