package framework

import (
	"errors"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/proto"
)

var (
	// ErrClosed means that the client was closed, before the call or during it.
	ErrClosed = engine.ErrClosed

	// ErrEnded means that what was asked has been ended by its owner: a cache, a kept node or a membership was closed.
	ErrEnded = errors.New("it was closed")

	// ErrLost is wrapped by ErrSessionLost and ErrSuspended, and by all losses of package lock.
	ErrLost = engine.ErrLost

	// ErrSessionLost means that the session of the call or of the lock is over, or
	// counts as over because no server has confirmed it in time. Its ephemeral
	// nodes are deleted, or will be. It wraps ErrLost.
	ErrSessionLost = engine.ErrSessionLost

	// ErrSuspended means that the connection was lost, while the session may
	// still live. It ends holds under [connstate.Standard]. It wraps ErrLost.
	ErrSuspended = engine.ErrSuspended

	// ErrBadPath means that a path is empty, relative, ends in a slash or has
	// an element that ZooKeeper does not allow. Nothing was sent.
	ErrBadPath = errors.New("bad path")

	// ErrBadArgument means that another argument is not valid. Nothing was sent.
	ErrBadArgument = opt.ErrBadArgument

	// ErrTooLong means that a request is longer than [WithMaxRequest] allows. Nothing was sent.
	ErrTooLong = conn.ErrTooLong
)

// What a server may answer that go-zookeeper has no error values for. [retry.Judge] knows them.
var (
	// ErrRolledBack means that an operation of a [Client.Multi] was not tried because one before it failed (-2).
	ErrRolledBack = conn.CodeError(proto.RuntimeInconsistency)

	// ErrConnectionLoss means that a server has lost its connection to the leader: the request may have been
	// carried out (-4). The loss of our own connection is zk.ErrConnectionClosed.
	ErrConnectionLoss = conn.CodeError(proto.ConnectionLoss)

	// ErrUnimplemented means that the server does not know the operation, or is configured not to allow it, as TTL nodes
	// without extendedTypesEnabled (-6).
	ErrUnimplemented = engine.ErrUnimplemented

	// ErrOperationTimeout and ErrRequestTimeout mean that the servers took too long (-7, -122): the request may
	// have been carried out.
	ErrOperationTimeout = conn.CodeError(proto.OperationTimeout)
	ErrRequestTimeout   = conn.CodeError(proto.RequestTimeout)

	// ErrLocalSession means that a session that only one server knows cannot have ephemeral nodes (-120). Servers
	// make such sessions with localSessionsEnabled, unless they also have localSessionsUpgradingEnabled.
	ErrLocalSession = conn.CodeError(proto.EphemeralOnLocalSession)

	// ErrAuthRequired means that the server accepts authenticated clients only, by SASL or as its enforce.auth.schemes
	// say, and has closed the session (-124).
	ErrAuthRequired = conn.CodeError(proto.SessionClosedRequireSASL)

	// ErrQuotaExceeded means that the write would exceed a quota that the server enforces (-125).
	ErrQuotaExceeded = conn.CodeError(proto.QuotaExceeded)

	// ErrThrottled means that the server has too much to do, and has not looked at the request (-127).
	ErrThrottled = conn.CodeError(proto.Throttled)
)

// OpError says which operation failed, and on which path (as the caller wrote
// it, without the namespace). Err keeps what ZooKeeper said, so errors.Is(err,
// zk.ErrNoNode) works.
type OpError struct {
	Op   string
	Path string
	Err  error
}

func (e *OpError) Error() string {
	if e.Path == "" {
		return e.Op + ": " + e.Err.Error() // of a Multi without operations
	}
	return e.Op + " " + e.Path + ": " + e.Err.Error()
}

func (e *OpError) Unwrap() error { return e.Err }

// opError wraps err, unless there is none.
func opError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: op, Path: path, Err: err}
}
