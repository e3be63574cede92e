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
	cuts    map[proto.Op]cuts
}

// cuts are the connections in a row that ended right after an operation was sent.
type cuts struct {
	count int
	last  *link // it counts once, however many requests it took along
}

// cutsBeforeUnknown is how often a connection must end right after an operation before the
// operation is taken for the reason, and promptly is how soon after.
const (
	cutsBeforeUnknown = 2
	promptly          = time.Second

	// shortRequest is how long what the caller gave for a request may be for the end of its connection to say anything
	// about the operation: a server also hangs up on a request that is too long for its jute.maxbuffer.
	shortRequest = 4 << 10
)

// has reports whether the servers do not know op.
func (u *unknownOps) has(op proto.Op) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.unknown[op]
}

// suspects reports whether a connection has ended right after op was sent, the last time.
func (u *unknownOps) suspects(op proto.Op) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.cuts[op].count > 0
}

// note looks at how an operation has ended that was sent on l with a path and data of length bytes, and reports whether the
// servers do not know it.
func (u *unknownOps) note(l *link, op proto.Op, length int, sent time.Time, err error) bool {
	var unnamed conn.Unnamed
	unknown := errors.As(err, &unnamed) && proto.Code(unnamed) == proto.Unimplemented || errors.Is(err, zk.ErrBadArguments)
	cut := errors.Is(err, zk.ErrConnectionClosed) && length <= shortRequest && time.Since(sent) < promptly && hungUp(l.conn.Err())
	var given unanswered
	if err != nil && !unknown && !cut && (errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrConnectionClosed) || errors.As(err, &given)) {
		return false // says nothing
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.unknown == nil {
		u.unknown, u.cuts = make(map[proto.Op]bool), make(map[proto.Op]cuts)
	}
	if cut {
		if before := u.cuts[op]; before.last != l {
			u.cuts[op] = cuts{before.count + 1, l}
		}
		unknown = u.cuts[op].count >= cutsBeforeUnknown
	} else {
		delete(u.cuts, op)
		// A ZooKeeper that is not told to have TTL nodes says so, and the connection stays. It may be told later.
		unknown = unknown && op != proto.OpCreateTTL
	}
	if unknown {
		u.unknown[op] = true
	}
	return u.unknown[op]
}

// hungUp reports whether a connection ended because the server closed it.
func hungUp(cause error) bool {
	return errors.Is(cause, io.EOF) || errors.Is(cause, syscall.ECONNRESET) || errors.Is(cause, io.ErrClosedPipe)
}
