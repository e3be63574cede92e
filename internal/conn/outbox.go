package conn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
)

// ErrTooLong means that a request is longer than the servers take, and was not sent.
var ErrTooLong = errors.New("request is too long for the servers")

// lengthPrefix is how many bytes of a frame say how many follow. Servers do not count them.
const lengthPrefix = 4

// CheckLength returns ErrTooLong if a frame of this many bytes is longer than limit, which is for a request without its
// prefix; 0 is any. A server hangs up on a request that is too long, and all that use the connection would pay for it.
func CheckLength(frame, limit int) error {
	length := frame - lengthPrefix
	if limit == 0 || length <= limit {
		return nil
	}
	return fmt.Errorf("%w: %d bytes, and the limit is %d", ErrTooLong, length, limit)
}

// Withdraw takes a request back that its caller has given up, and reports whether it could: the request was not written,
// and never will be. Then its handler has got zk.ErrNoServer. So requests do not pile up while a peer does not read.
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
