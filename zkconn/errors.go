package zkconn

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// plain maps errors to go-zookeeper's values, which programs compare with ==. The first match is
// used.
var plain = []struct{ is, becomes error }{
	{framework.ErrClosed, zk.ErrConnectionClosed},
	{zk.ErrConnectionClosed, zk.ErrConnectionClosed},
	{zk.ErrSessionExpired, zk.ErrSessionExpired},
	{framework.ErrSessionLost, zk.ErrSessionExpired},
	{zk.ErrNoServer, zk.ErrNoServer},
	{framework.ErrTooLong, zk.ErrShortBuffer},
	{framework.ErrBadPath, zk.ErrInvalidPath},
	{framework.ErrBadArgument, zk.ErrBadArguments},
	{zk.ErrNoNode, zk.ErrNoNode},
	{zk.ErrNodeExists, zk.ErrNodeExists},
	{zk.ErrBadVersion, zk.ErrBadVersion},
	{zk.ErrNotEmpty, zk.ErrNotEmpty},
	{zk.ErrNoChildrenForEphemerals, zk.ErrNoChildrenForEphemerals},
	{zk.ErrNoAuth, zk.ErrNoAuth},
	{zk.ErrAuthFailed, zk.ErrAuthFailed},
	{zk.ErrInvalidACL, zk.ErrInvalidACL},
	{zk.ErrSessionMoved, zk.ErrSessionMoved},
	{zk.ErrReconfigDisabled, zk.ErrReconfigDisabled},
	{zk.ErrBadArguments, zk.ErrBadArguments},
	{zk.ErrAPIError, zk.ErrAPIError},
}

// unwrapped returns go-zookeeper's error for err, without the operation and the path.
func unwrapped(err error) error {
	if err == nil {
		return nil
	}
	for _, p := range plain {
		if errors.Is(err, p.is) {
			return p.becomes
		}
	}
	var op *framework.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var failed *framework.MultiError
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return err
}
