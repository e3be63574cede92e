package conn

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
)

// nudging runs a test in virtual time with a connection that sends nudges.
func nudging(t *testing.T, test func(t *testing.T, c *Conn, p *peer)) {
	synctest.Test(t, func(t *testing.T) {
		c, p := open(t, time.Hour, Handlers{Nudge: true}) // so that no ping is sent in between
		test(t, c, p)
	})
}

// write sends a delete, which the peer answers after a while. Nothing is sent in between.
func write(t *testing.T, c *Conn, p *peer, after time.Duration) {
	t.Helper()
	r, answered := deletion()
	c.Send(r)
	h, _ := p.next()
	require.Equal(t, proto.OpDelete, h.Op)
	time.Sleep(after) // virtual time
	p.reply(h.Xid, proto.OK)
	require.NoError(t, <-answered)
}

// forget has the peer receive a request and not answer it before a nudge. It returns when
// that was.
func forget(t *testing.T, c *Conn, p *peer, r *Request, answered caller) time.Duration {
	t.Helper()
	began := time.Now()
	c.Send(r)
	h, _ := p.next()
	nudge, body := p.next()
	require.Equal(t, proto.OpSync, nudge.Op)
	var path proto.PathRequest
	d := proto.NewDecoder(body)
	path.Decode(&d)
	require.Equal(t, "/", path.Path)
	after := time.Since(began)
	p.reply(h.Xid, proto.NoNode)
	require.Error(t, <-answered)
	p.reply(nudge.Xid, proto.OK, &proto.PathResponse{Path: "/"})
	synctest.Wait()
	return after
}

func TestARequestThatIsForgottenGetsANudge(t *testing.T) {
	nudging(t, func(t *testing.T, c *Conn, p *peer) {
		for range 3 {
			r, answered := deletion()
			require.Equal(t, 50*time.Millisecond, forget(t, c, p, r, answered))
			for range 40 {
				write(t, c, p, 0)
			}
			time.Sleep(time.Second) // virtual time
		}
		r, answered := request(proto.OpGetData, &proto.ReadRequest{Path: "/a"})
		require.Less(t, forget(t, c, p, r, answered), 2*time.Second, "a read can be forgotten too")
	})
}

// TestASyncGetsNoNudge: it is one itself, and a slow leader must not get twice as many.
func TestASyncGetsNoNudge(t *testing.T) {
	nudging(t, func(t *testing.T, c *Conn, p *peer) {
		r, answered := request(proto.OpSync, &proto.PathRequest{Path: "/"})
		c.Send(r)
		h, _ := p.next()
		time.Sleep(10 * time.Second) // virtual time
		p.reply(h.Xid, proto.OK, &proto.PathResponse{Path: "/"})
		require.NoError(t, <-answered)
		write(t, c, p, 0) // shows that nothing came in between
		forgotten, answered := deletion()
		require.LessOrEqual(t, forget(t, c, p, forgotten, answered), 100*time.Millisecond)
	})
}

// TestOneNudgeAtATime has a server that answers nothing any more: not even the next requests bring
// another nudge.
func TestOneNudgeAtATime(t *testing.T) {
	nudging(t, func(t *testing.T, c *Conn, p *peer) {
		for range 5 {
			r, _ := deletion()
			c.Send(r)
			time.Sleep(time.Second) // virtual time
		}
		counts := make(map[proto.Op]int)
		go func() { // ends with the connection
			for {
				f, err := proto.ReadFrame(p, 1<<20)
				if err != nil {
					return
				}
				var h proto.RequestHeader
				d := proto.NewDecoder(f)
				h.Decode(&d)
				counts[h.Op]++
			}
		}()
		<-c.Done()
		synctest.Wait()
		require.ErrorIs(t, c.Err(), ErrSilent)
		require.Equal(t, map[proto.Op]int{proto.OpDelete: 5, proto.OpSync: 1, proto.OpPing: 1}, counts)
	})
}

// TestARequestBehindANudgeGetsOneToo: it was sent while the nudge was not answered yet, and is
// forgotten in its turn.
func TestARequestBehindANudgeGetsOneToo(t *testing.T) {
	nudging(t, func(t *testing.T, c *Conn, p *peer) {
		first, answered := p.sent(c)
		nudge, _ := p.next()
		behind, again := p.sent(c)
		time.Sleep(10 * time.Millisecond) // virtual time
		p.reply(first, proto.OK)
		p.reply(nudge.Xid, proto.OK, &proto.PathResponse{Path: "/"})
		require.NoError(t, <-answered)
		began := time.Now()
		nudge, _ = p.next()
		require.Equal(t, proto.OpSync, nudge.Op)
		require.Less(t, time.Since(began), time.Second)
		p.reply(behind, proto.OK)
		require.NoError(t, <-again)
	})
}

func TestASlowServerGetsNoNudges(t *testing.T) {
	nudging(t, func(t *testing.T, c *Conn, p *peer) {
		const usual = 10 * time.Millisecond
		for range 100 {
			write(t, c, p, usual) // next would show a nudge
		}
		for range 100 {
			write(t, c, p, 19*usual) // and this makes them usual
		}
		for range 100 {
			write(t, c, p, usual)
		}
		r, answered := deletion()
		require.InDelta(t, 20*usual, forget(t, c, p, r, answered), float64(usual))
	})
}

// TestForgottenOnceIsNotUsual: the next request that is forgotten must not wait as long as this one
// has.
func TestForgottenOnceIsNotUsual(t *testing.T) {
	nudging(t, func(t *testing.T, c *Conn, p *peer) {
		xid, answered := p.sent(c)
		nudge, _ := p.next()
		time.Sleep(5 * time.Second) // virtual time: it does not help at once
		p.reply(xid, proto.OK)
		p.reply(nudge.Xid, proto.OK, &proto.PathResponse{Path: "/"})
		require.NoError(t, <-answered)
		r, answered := deletion()
		require.Less(t, forget(t, c, p, r, answered), 200*time.Millisecond)
	})
}

// TestALongRowGetsNoNudges: 100 reads sent at once, each of which takes 20 ms, so that the last one
// takes 2 s.
func TestALongRowGetsNoNudges(t *testing.T) {
	nudging(t, func(t *testing.T, c *Conn, p *peer) {
		var last caller
		for range 100 {
			var r *Request
			r, last = request(proto.OpGetData, &proto.ReadRequest{Path: "/a"})
			c.Send(r)
		}
		for range 100 {
			h, _ := p.next()
			require.Equal(t, proto.OpGetData, h.Op)
			time.Sleep(20 * time.Millisecond) // virtual time
			p.reply(h.Xid, proto.NoNode)
		}
		require.Error(t, <-last)
		write(t, c, p, 0) // shows that nothing came in between
	})
}

// TestTheEndOfASessionGetsANudgeToo, though nothing else is sent then.
func TestTheEndOfASessionGetsANudgeToo(t *testing.T) {
	nudging(t, func(t *testing.T, c *Conn, p *peer) {
		c.Drain()
		began := time.Now()
		go c.CloseSession(t.Context())
		h, _ := p.next()
		require.Equal(t, proto.OpCloseSession, h.Op)
		nudge, _ := p.next()
		require.Equal(t, proto.OpSync, nudge.Op)
		require.Equal(t, 50*time.Millisecond, time.Since(began))
		p.reply(h.Xid, proto.OK)
		<-c.Done()
	})
}

// TestAFarServerGetsNoNudges: the handshake has shown how far it is.
func TestAFarServerGetsNoNudges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		slow := &late{Conn: far, by: 200 * time.Millisecond}
		c, p := start(t, time.Hour, Handlers{Nudge: true}, near, slow)
		slow.by = 0
		write(t, c, p, 3*time.Second)
		write(t, c, p, 0) // shows that nothing came in between
	})
}

// late is a connection whose writes take a while.
type late struct {
	net.Conn
	by time.Duration
}

func (l *late) Write(b []byte) (int, error) {
	time.Sleep(l.by) // virtual time
	return l.Conn.Write(b)
}

func TestNoNudgesUnlessTheyAreWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := open(t, time.Hour, Handlers{})
		write(t, c, p, 10*time.Second)
		write(t, c, p, 0)
	})
}

// TestAnIdleConnectionSetsNoTimer: nothing is looked for once everything is answered.
func TestAnIdleConnectionSetsNoTimer(t *testing.T) {
	nudging(t, func(t *testing.T, c *Conn, p *peer) {
		looking := func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.nudges.looking
		}
		write(t, c, p, time.Millisecond)
		require.True(t, looking())
		time.Sleep(time.Second) // virtual time
		require.False(t, looking())
	})
}
