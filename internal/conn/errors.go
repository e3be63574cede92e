package conn

import (
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
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

// CodeError says what a server said, in go-zookeeper's words: its error value if it has one, and otherwise an
// [Unnamed].
func CodeError(code proto.Code) error {
	if err, found := codes[code]; found {
		return err
	}
	return Unnamed(code)
}

// Unnamed is the error of a code for which go-zookeeper has no error value.
type Unnamed proto.Code

// Error is the text that go-zookeeper has for it, which others compare with, and the code's name.
func (u Unnamed) Error() string { return fmt.Sprintf("unknown error: %d", int32(u)) }
