package conn

import (
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// A request is overdue when it takes longer than both of these.
const (
	minWait    = 50 * time.Millisecond
	usualTimes = 20 // times the average of a write

	smoothing = 8 // a write moves the average by this part of the difference
)

// nudges decides when to send a nudge.
type nudges struct {
	wanted  bool
	timer   *time.Timer   // fires when nudge is due
	looking bool          // the timer is running
	usual   time.Duration // the average of a write
}

// longestWait returns how long the oldest request may wait before a nudge.
func (n *nudges) longestWait() time.Duration { return max(minWait, usualTimes*n.usual) }

// learn adds a write to the average. It counts a write as no longer than longestWait, so that one
// that the server had forgotten does not delay the next nudge much.
func (n *nudges) learn(took time.Duration) {
	n.usual += (min(took, n.longestWait()) - n.usual) / smoothing
}

// look starts the timer for the oldest request in flight, unless it is running. So a busy
// connection sets it once in 50 ms and not for each request.
func (n *nudges) look() {
	if n.wanted && !n.looking {
		n.looking = true
		n.timer.Reset(n.longestWait())
	}
}

// nudge sends a sync if the oldest request is overdue, and restarts the timer. A request is not
// overdue while the server sends anything: in a long row of requests each waits for those ahead.
func (c *Conn) nudge() {
	c.mu.Lock()
	oldest, found := c.inFlight.front()
	if !found {
		c.nudges.looking = false
		c.mu.Unlock()
		return
	}
	since := oldest.at
	if heard := c.heard.at(); heard.After(since) {
		since = heard
	}
	left := c.nudges.longestWait() - time.Since(since)
	late := left <= 0 && c.syncs == 0
	if left <= 0 {
		left = c.nudges.longestWait()
	}
	c.nudges.timer.Reset(left)
	c.mu.Unlock()
	if late {
		r := proto.PathRequest{Path: "/"}
		c.Send(&Request{Op: proto.OpSync, Frame: r.Append(Begin(5)), Handler: noted{}, Last: true})
	}
}
