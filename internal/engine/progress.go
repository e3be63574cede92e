package engine

import (
	"errors"
	"sync/atomic"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

// progress tracks which transactions the session's servers have applied. The next server may be
// behind the last one. lastZxid prevents that, except for events without a transaction number:
// after such an event the next server has to catch up first:
//
//	unplaced  behind  the server of the connection
//	no        no      knows all that the session was shown
//	yes       no      has sent an event without a number since its last answer
//	yes       yes     resumes the session, perhaps without the transaction: see wire.Conn.CatchUp
type progress struct {
	lastZxid atomic.Int64
	unplaced atomic.Bool
	behind   atomic.Bool
}

// begin notes that a connection begins, and reports whether its server has to catch up.
func (p *progress) begin() (behind bool) {
	behind = p.unplaced.Load()
	p.behind.Store(behind)
	return behind
}

// answered notes an answer. An error means that the connection cannot be used.
func (p *progress) answered(a conn.Answer) error {
	behind := p.behind.Load()
	if behind && a.Code == proto.Throttled {
		return errors.New("the server is too busy to catch up")
	}
	if a.Zxid > 0 && (!behind || a.Committed) {
		p.unplaced.Store(false) // the server has applied the event's transaction as well
		p.behind.Store(false)
	}
	p.seen(a.Zxid)
	return nil
}

// event notes an event.
func (p *progress) event(zxid int64) {
	if zxid <= 0 { // before ZooKeeper 3.9
		p.unplaced.Store(true)
	}
	p.seen(zxid)
}

// seen notes a transaction that the server has applied.
func (p *progress) seen(zxid int64) {
	if zxid > p.lastZxid.Load() {
		p.lastZxid.Store(zxid)
	}
}
