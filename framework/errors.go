package framework

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/proto"
)

var (
	// ErrClosed is returned after the client was closed, before or during the call. [ErrShutdown]
	// wraps it.
	ErrClosed = engine.ErrClosed

	// ErrShutdown is returned for new holds and registrations after [Client.Shutdown]. It is also
	// the cause of the contexts of holds that Shutdown has cancelled: their nodes exist until
	// Release. It wraps ErrClosed.
	ErrShutdown = engine.ErrShutdown

	// ErrEnded is wrapped by the errors of a Cache, Node or Member after its Close. It does not
	// wrap ErrClosed: the client is open.
	ErrEnded = errors.New("closed")

	// ErrLost is wrapped by ErrSessionLost and ErrSuspended, and by all errors of package lock that
	// report a lost lock.
	ErrLost = engine.ErrLost

	// ErrSessionLost means that a session has expired, or counts as expired because no server
	// confirmed it in time. The servers delete its ephemeral nodes. It wraps ErrLost.
	ErrSessionLost = engine.ErrSessionLost

	// ErrSuspended means that the connection was lost, but the session may still be alive. Holds
	// under [connstate.SuspendedEndsHold] are cancelled with it. It wraps ErrLost.
	ErrSuspended = engine.ErrSuspended

	// ErrBadPath means that a path is invalid: see [ValidatePath]. No request was sent.
	ErrBadPath = errors.New("bad path")

	// ErrBadArgument means that an argument other than a path is invalid. No request was sent.
	ErrBadArgument = opt.ErrBadArgument

	// ErrBadValue means that the data of a node are not a value of the expected kind. The packages
	// shared and modeled and the values of a cache return it.
	ErrBadValue = errors.New("bad value")

	// ErrTooLong means that a request exceeds the limit of [WithMaxRequest]. It was not sent.
	ErrTooLong = conn.ErrTooLong
)

// Server error codes that go-zookeeper does not define.
var (
	// ErrUnimplemented means that the server does not support the operation, or that its
	// configuration disables it (-6).
	ErrUnimplemented = engine.ErrUnimplemented

	// ErrAuthRequired means that the server requires authentication (SASL or enforce.auth.schemes)
	// and has closed the session (-124).
	ErrAuthRequired = conn.CodeError(proto.SessionClosedRequireSASL)

	// ErrQuotaExceeded means that a write would exceed a quota that the server enforces (-125).
	ErrQuotaExceeded = conn.CodeError(proto.QuotaExceeded)

	// ErrThrottled means that the server is overloaded and has not processed the request (-127).
	// The client retries the operation.
	ErrThrottled = conn.CodeError(proto.Throttled)
)

// OpError describes a failed operation. Path does not contain the namespace. OpError wraps the
// reason of the failure, Err.
type OpError struct {
	Op   string
	Path string
	Err  error
}

func (e *OpError) Error() string {
	if e.Path == "" {
		return e.Op + ": " + e.Err.Error() // a Multi without operations has no path
	}
	if e.Op == "create" && e.Err == zk.ErrNoNode { // about the parent, not about the path
		parent, _ := Split(e.Path)
		return "create " + e.Path + ": parent " + parent + ": " + e.Err.Error()
	}
	return e.Op + " " + e.Path + ": " + e.Err.Error()
}

func (e *OpError) Unwrap() error { return e.Err }

// opError wraps err in an [*OpError]. If err is nil, it returns nil.
func opError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: op, Path: path, Err: err}
}
