package framework

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/retry"
)

// Delete deletes a node if its version is the one given; -1 is any. Errors are zk.ErrNoNode, zk.ErrBadVersion
// and zk.ErrNotEmpty.
//
// A deletion whose reply was lost is repeated as the retry policy says. If the node is missing then, nobody
// knows who deleted it: the error wraps zk.ErrNoNode, and [retry.Unknown] is true. ([Client.DeleteIfExists] and
// [Client.DeleteGuaranteed] return no error.) If somebody has made the node again, with the same version, that
// one is deleted. New nodes have version 0.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	if err := ValidatePath(path); err != nil {
		return opError("delete", path, err)
	}
	return opError("delete", path, c.engine.Delete(ctx, path, version))
}

// DeleteIfExists is [Client.Delete], but a missing node is no error. found is false if the node was
// missing, unless this call may have deleted it. It is Curator's delete().quietly(), except that
// other failures are still errors.
func (c *Client) DeleteIfExists(ctx context.Context, path string, version int32) (found bool, err error) {
	err = c.Delete(ctx, path, version)
	if errors.Is(err, zk.ErrNoNode) {
		return retry.Unknown(err), nil
	}
	return err == nil, err
}

// DeleteGuaranteed deletes a node of any version, however long it takes: it tries
// until the node is gone, the server refuses for good (zk.ErrNoAuth,
// zk.ErrNotEmpty) or the client is closed. When ctx is done first, DeleteGuaranteed
// returns its error, and the client continues in the background. A missing node is success; found
// is false then, unless this call may have deleted it. With a context from [InSession] all of this
// ends with the session, and the error is [ErrSessionLost].
//
// It is Curator's delete().guaranteed().
func (c *Client) DeleteGuaranteed(ctx context.Context, path string) (found bool, err error) {
	if err := ValidatePath(path); err != nil {
		return false, opError("delete", path, err)
	}
	found, err = c.engine.DeleteGuaranteed(ctx, path)
	return found, opError("delete", path, err)
}
