package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/ctxerr"
)

// link is one TCP connection of one session, with the [zk.Conn] that speaks on it.
// It is made when the session has been agreed on and ends when the connection does.
type link struct {
	session    *Session
	server     string
	wire       *wire
	conn       *zk.Conn
	events     <-chan zk.Event // closed when the last goroutine of conn ends
	redial     chan struct{}   // closed when conn wants to reconnect, which it must not
	watches    watches
	persistent persistentWatches

	mu    sync.Mutex // guards what follows
	ended bool
	calls sync.WaitGroup // no call is added once ended is set
}

// newLink puts a zk.Conn on w. Goroutines that outlive the link's own are
// counted in wg.
func newLink(s *Session, server string, w *wire, g grant, log *slog.Logger, wg *sync.WaitGroup) (*link, error) {
	l := &link{session: s, server: server, wire: w, redial: make(chan struct{})}
	dials := 0
	dial := func(string, string, time.Duration) (net.Conn, error) {
		dials++
		if dials == 1 {
			return w, nil
		}
		if dials == 2 {
			close(l.redial)
		}
		return newFarewell(wg, g), nil
	}
	var err error
	l.conn, l.events, err = zk.Connect([]string{server}, g.timeout,
		zk.WithDialer(dial),
		zk.WithHostProvider(oneHost(server)),
		zk.WithEventCallback(func(e zk.Event) {
			l.persistent.notify(e)
			l.watches.notify(e)
		}),
		zk.WithLogger(zkLogger{log}))
	if err != nil {
		return nil, err
	}
	wg.Go(w.writeLoop)
	return l, nil
}

// close ends the connection and everything that waits on it. It returns when all is
// over; the session goes on.
func (l *link) close() {
	l.refuse()
	l.wire.Close()
	// Closing a Conn while its receive loop runs lets a call return while its
	// result is being written. Once it redials, the loop has ended.
	<-l.redial
	l.conn.Close()
	l.finish()
}

// closeSession tells the server that the session is over, so that its nodes go
// at once, and ends the link. A server that does not answer is given up after
// a second.
func (l *link) closeSession() {
	l.refuse()
	answered := make(chan struct{})
	go func() { // ends with the last call, which close ends at the latest
		l.calls.Wait()
		close(answered)
	}()
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	select {
	case <-answered:
	case <-patience.C:
		l.close()
		<-answered
		return
	}
	l.conn.Close()
	l.wire.Close()
	l.finish()
}

// closePatience is how long requests that are under way may hold up Close.
const closePatience = 500 * time.Millisecond

func (l *link) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// finish waits for the Conn, which is closed, and for all calls.
func (l *link) finish() {
	for range l.events { // until it is closed
	}
	l.watches.end()
	l.persistent.end()
	l.calls.Wait()
}

// enter counts a call. It reports whether the call may go on.
func (l *link) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.calls.Add(1)
	return true
}

// call runs f, which makes one request, and returns its result. When ctx is done
// or the client closed first, call returns at once and f goes on: go-zookeeper's
// calls cannot be stopped. Then late, if not nil, gets the result.
func call[T any](ctx context.Context, l *link, f func(*zk.Conn) (T, error), late func(T, error)) (T, error) {
	if !l.enter() {
		var none T
		return none, zk.ErrNoServer // nothing was sent
	}
	w := newWaiting(late)
	go func() { // ends with the request, or with the link
		defer l.calls.Done()
		value, err := f(l.conn)
		if errors.Is(err, zk.ErrClosing) {
			err = zk.ErrConnectionClosed // which of the two is chance
		}
		w.done(value, err)
	}()
	return w.wait(ctx, l)
}

// waiting is for an answer that its caller may give up.
type waiting[T any] struct {
	answer    chan outcome[T] // capacity 1
	abandoned atomic.Bool     // whoever sets it second knows of the other
	late      func(T, error)
}

type outcome[T any] struct {
	value T
	err   error
}

func newWaiting[T any](late func(T, error)) *waiting[T] {
	return &waiting[T]{answer: make(chan outcome[T], 1), late: late}
}

// done is called once, with the answer. It does not block.
func (w *waiting[T]) done(value T, err error) {
	w.answer <- outcome[T]{value, err}
	if w.abandoned.Swap(true) && w.late != nil {
		w.late(value, err)
	}
}

// wait returns the answer, or at once when ctx is done or the client closed.
func (w *waiting[T]) wait(ctx context.Context, l *link) (T, error) {
	closed := l.session.core.ctx
	select {
	case r := <-w.answer:
		return r.value, r.err
	case <-ctx.Done():
	case <-closed.Done():
	}
	if w.abandoned.Swap(true) {
		r := <-w.answer // it was faster
		return r.value, r.err
	}
	var none T
	if closed.Err() != nil {
		return none, unanswered{ErrClosed}
	}
	return none, unanswered{ctxerr.Of(ctx)}
}

// unanswered is the error of a request that was given up before its answer came.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

// Unknown makes [retry.Unknown] true: the server may carry the request out.
func (u unanswered) Unknown() bool { return true }

// oneHost is the host provider of a Conn that knows one server only.
type oneHost string

func (h oneHost) Init([]string) error  { return nil }
func (h oneHost) Len() int             { return 1 }
func (h oneHost) Next() (string, bool) { return string(h), false }
func (h oneHost) Connected()           {}

// zkLogger passes go-zookeeper's log lines on.
type zkLogger struct{ log *slog.Logger }

func (z zkLogger) Printf(format string, args ...any) {
	if z.log.Enabled(context.Background(), slog.LevelDebug) {
		z.log.Debug("zk: " + fmt.Sprintf(format, args...))
	}
}
