package conn

import (
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/verdict"
)

// codes are go-zookeeper's errors. It has the same map, unexported.
var codes = map[proto.Code]error{
	proto.OK:                      nil,
	proto.BadArguments:            zk.ErrBadArguments,
	proto.APIError:                zk.ErrAPIError,
	proto.NoNode:                  zk.ErrNoNode,
	proto.NoAuth:                  zk.ErrNoAuth,
	proto.BadVersion:              zk.ErrBadVersion,
	proto.NoChildrenForEphemerals: zk.ErrNoChildrenForEphemerals,
	proto.NodeExists:              zk.ErrNodeExists,
	proto.NotEmpty:                zk.ErrNotEmpty,
	proto.SessionExpired:          zk.ErrSessionExpired,
	proto.InvalidACL:              zk.ErrInvalidACL,
	proto.AuthFailed:              zk.ErrAuthFailed,
	proto.SessionMoved:            zk.ErrSessionMoved,
	proto.ReconfigDisabled:        zk.ErrReconfigDisabled,
}

// CodeError returns the error for a server's code: go-zookeeper's error value if it has one, and
// otherwise a [ServerError].
func CodeError(code proto.Code) error {
	if err, found := codes[code]; found {
		return err
	}
	return ServerError(code)
}

// ServerError is a code for which go-zookeeper has no error value. Two errors with the same code
// are equal.
type ServerError proto.Code

// Error returns the name of the code, and its number.
func (e ServerError) Error() string { return fmt.Sprintf("zk: %v (%d)", proto.Code(e), int32(e)) }

// Verdict classifies the error for [verdict.Of].
func (e ServerError) Verdict() verdict.Verdict {
	switch proto.Code(e) {
	case proto.ConnectionLoss, proto.OperationTimeout, proto.RequestTimeout:
		return verdict.Lost
	case proto.Throttled, proto.OutOfMemory:
		return verdict.Refused
	}
	return verdict.Answered
}
