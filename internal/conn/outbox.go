package conn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
)

// ErrTooLong is returned for a request that is longer than the servers accept. It was not sent.
var ErrTooLong = errors.New("request is too long for the servers")

// lengthPrefix is the size of a frame's length field. Servers do not count it.
const lengthPrefix = 4

// CheckLength returns ErrTooLong if a frame of that many bytes exceeds limit, which excludes the
// length field. A limit of 0 means no limit. A server closes the connection on a request that is
// too long, which would affect all users of the connection.
func CheckLength(frame, limit int) error {
	length := frame - lengthPrefix
	if limit == 0 || length <= limit {
		return nil
	}
	return fmt.Errorf("%w: %d bytes, limit %d", ErrTooLong, length, limit)
}

// Withdraw removes a queued request whose caller has given up, so that requests do not pile up
// while a peer does not read. It reports whether the request was still unwritten. If so, its
// handler has received zk.ErrNoServer.
func (c *Conn) Withdraw(r *Request) bool {
	c.mu.Lock()
	i := slices.Index(c.outbox, r)
	if i >= 0 {
		c.outbox = slices.Delete(c.outbox, i, i+1)
		if r.Op == proto.OpSync && c.state < closed {
			c.syncs--
		}
	}
	c.mu.Unlock()
	if i < 0 {
		return false
	}
	r.Handler.Reply(nil, zk.ErrNoServer)
	return true
}
