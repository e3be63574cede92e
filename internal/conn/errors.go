package conn

import (
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/retry"
)

// codes are the errors of go-zookeeper, which has them by number too, but for itself.
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

// CodeError says what a server said: go-zookeeper's error value if it has one, and otherwise a [ServerError].
func CodeError(code proto.Code) error {
	if err, found := codes[code]; found {
		return err
	}
	return ServerError(code)
}

// ServerError is the error of a code for which go-zookeeper has no error value. Two of the same code are equal.
type ServerError proto.Code

// Error is the name of the code, and its number.
func (e ServerError) Error() string { return fmt.Sprintf("zk: %v (%d)", proto.Code(e), int32(e)) }

// Verdict is for [retry.Judge].
func (e ServerError) Verdict() retry.Verdict {
	switch proto.Code(e) {
	case proto.ConnectionLoss, proto.OperationTimeout, proto.RequestTimeout:
		return retry.Lost
	case proto.Throttled, proto.OutOfMemory:
		return retry.Refused
	}
	return retry.Answered
}
