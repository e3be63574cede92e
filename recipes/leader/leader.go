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
	"github.com/gocurator/curator/internal/nocopy"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/internal/locks"
	"github.com/gocurator/curator/recipes/internal/recipe"
	"github.com/gocurator/curator/recipes/lock"
)

// ErrNoLeader means that the election has no candidate.
var ErrNoLeader = errors.New("no leader")

// What Curator calls the nodes of a LeaderLatch, and of the mutex in a LeaderSelector.
const (
	latchName    = "latch-"
	selectorName = "lock-"
)

// maxID is the longest id in bytes, far below the request limit of every server.
const maxID = 1 << 16

// Option configures an [Election]. [New] refuses invalid values with [framework.ErrBadArgument].
type Option func(*config) error

type config struct {
	id   string
	name string // of nodes: latchName or selectorName
	lock []lock.Option
}

// WithID sets the id of this process's candidates, such as a host name: UTF-8 text of at most 64
// KiB. Ids need not be unique. The default is empty; with [WithSelector] it is the client's default
// data.
func WithID(id string) Option {
	valid := len(id) <= maxID && utf8.ValidString(id)
	return opt.Checked(valid, func(c *config) { c.id = id }, "id of %d bytes, must be UTF-8 text of at most %d bytes", len(id), maxID)
}

// WithSelector takes part in the elections of LeaderSelector instead of LeaderLatch. Its candidates
// create the nodes of a mutex: a process that holds a mutex at the path leads as well.
func WithSelector() Option { return opt.Set(func(c *config) { c.name = selectorName }) }

// WithErrorPolicy sets whether a suspended connection ends a term. The default is the client's
// policy.
func WithErrorPolicy(p connstate.ErrorPolicy) Option {
	return opt.Set(func(c *config) { c.lock = append(c.lock, lock.WithErrorPolicy(p)) })
}

// inside is what package lock offers to the recipes of this module.
var inside = locks.Inside

// Election is an election at one path. It need not be closed. All methods are safe for concurrent
// use.
//
// Each call of Campaign, Lead and Run is a separate candidate. Calls in one process exclude each
// other as processes do.
type Election struct {
	_ nocopy.Mark

	client *framework.Client
	queue  *lock.Queue
	path   string
	name   string
	id     string
}

// New returns the election at path. It sends no request.
//
// Errors are
//   - [framework.ErrBadPath] if path is invalid or the root;
//   - [framework.ErrBadArgument] if client is nil, or an option is invalid.
func New(client *framework.Client, path string, opts ...Option) (_ *Election, err error) {
	defer func() { err = operr.New("election", path, err) }()
	cfg := config{name: latchName}
	if err := cmp.Or(opt.Apply(&cfg, opts), recipe.Check(client, path)); err != nil {
		return nil, err
	}
	if cfg.id == "" && cfg.name == selectorName {
		cfg.id = string(engine.Of(client).DefaultData())
	}
	own := inside.With(locking.Settings[*lock.Queue]{Noun: "leadership", Data: []byte(cfg.id)})
	candidates, err := lock.New(client, path, cfg.name, nil, append(cfg.lock, own)...)
	if err != nil {
		return nil, err
	}
	return &Election{client: client, queue: candidates, path: path, name: cfg.name, id: cfg.id}, nil
}

// Path returns the path of the election.
func (e *Election) Path() string { return e.path }

// ID returns the id of this process's candidates.
func (e *Election) ID() string { return e.id }

// Campaign joins the election and blocks until it leads. The caller must call [Term.Release]. If
// Campaign fails, its node is deleted.
//
// After a loss Campaign joins again, behind all other candidates if its node was deleted. An outage
// does not end it.
//
// Errors are
//   - the error of ctx, wrapped with zk.ErrNoServer if the client is not connected;
//   - [lock.ErrHeld] if ctx derives from a term of the same election, or, with [WithSelector], from
//     a hold of a mutex at its path: Campaign would wait for that term or hold;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrTooLong] if the id exceeds the client's limit of a request;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the server's errors that a retry cannot fix, such as zk.ErrNoAuth.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	term, err := e.campaign(ctx)
	return term, e.opError("campaign", err)
}

func (e *Election) campaign(ctx context.Context) (*Term, error) {
	// Before the loop, which would wait for a term that is suspended, too.
	if err := inside.Refuse(ctx, e.queue, lock.ErrHeld, "release the term first"); err != nil {
		return nil, err
	}
	pauses := wait.Pauses{First: engine.RefusedPause, Last: lastPause}
	for {
		hold, err := e.queue.Acquire(ctx)
		if err == nil {
			return &Term{hold: hold, id: e.id}, nil
		}
		if ctx.Err() == nil {
			if !e.joinsAgain(err) {
				return nil, err
			}
			if e.client.State().IsConnected() { // otherwise it cannot join yet
				engine.Of(e.client).Logger().Info("candidate rejoins", "path", e.path, "reason", err)
			}
			_ = engine.Sleep(ctx, engine.Of(e.client), pauses.Next()) // if ctx ends, GaveUp says so
		}
		if ctx.Err() != nil {
			return nil, engine.Of(e.client).GaveUp(ctx, operr.Bare(err))
		}
	}
}

func (e *Election) opError(op string, err error) error { return operr.New(op, e.path, err) }

// joinsAgain reports whether a candidate that failed with err may succeed when it begins anew: with
// another connection, another session, or another node.
func (e *Election) joinsAgain(err error) bool {
	if engine.Of(e.client).Over() != nil {
		return false
	}
	// A missing node is the deleted path of the election: it is recreated.
	return verdict.MayPass(err) || errors.Is(err, framework.ErrLost) || errors.Is(err, zk.ErrNoNode)
}
