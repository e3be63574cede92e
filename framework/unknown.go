package framework

import (
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

// unknownOps are which operations the servers do not know. ZooKeeper says so; ClickHouse Keeper
// hangs up, which is also what a fault looks like.
type unknownOps struct {
	mu      sync.Mutex // guards what follows
	unknown map[proto.Op]bool
	cuts    map[proto.Op]int // connections in a row that ended right after the operation was sent
}

// cutsBeforeUnknown is how often a connection must end right after an operation before the
// operation is taken for the reason, and promptly is how soon after.
const (
	cutsBeforeUnknown = 2
	promptly          = time.Second
)

// unknown reports whether the servers do not know op.
func (c *core) unknown(op proto.Op) bool {
	c.unknownOps.mu.Lock()
	defer c.unknownOps.mu.Unlock()
	return c.unknownOps.unknown[op]
}

// suspected reports whether a connection has ended right after op was sent, the last time.
func (c *core) suspected(op proto.Op) bool {
	c.unknownOps.mu.Lock()
	defer c.unknownOps.mu.Unlock()
	return c.unknownOps.cuts[op] > 0
}

// noteOutcome looks at how an operation has ended that was sent on l, and reports whether the servers do not know it.
func (c *core) noteOutcome(l *link, op proto.Op, sent time.Time, err error) bool {
	var unnamed conn.Unnamed
	unknown := errors.As(err, &unnamed) && proto.Code(unnamed) == proto.Unimplemented || errors.Is(err, zk.ErrBadArguments)
	cut := errors.Is(err, zk.ErrConnectionClosed) && time.Since(sent) < promptly && hungUp(l.conn.Err())
	var given unanswered
	if err != nil && !unknown && !cut && (errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrConnectionClosed) || errors.As(err, &given)) {
		return false // says nothing
	}
	i := &c.unknownOps
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.unknown == nil {
		i.unknown, i.cuts = make(map[proto.Op]bool), make(map[proto.Op]int)
	}
	if cut {
		i.cuts[op]++
		unknown = i.cuts[op] >= cutsBeforeUnknown
	} else {
		delete(i.cuts, op)
	}
	if unknown {
		i.unknown[op] = true
	}
	return i.unknown[op]
}

// hungUp reports whether a connection ended because the server closed it.
func hungUp(cause error) bool {
	return errors.Is(cause, io.EOF) || errors.Is(cause, syscall.ECONNRESET) || errors.Is(cause, io.ErrClosedPipe)
}
