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
func nudging(t *testing.T, test func(t *testing.T, p *peer)) {
	synctest.Test(t, func(t *testing.T) {
		_, p := open(t, time.Hour, Handlers{Nudge: true}) // so that no ping is sent in between
		test(t, p)
	})
}

// write sends a delete, which the peer answers after a while. Nothing is sent in between.
func (p *peer) write(after time.Duration) {
	p.t.Helper()
	xid, answered := p.sent()
	time.Sleep(after) // virtual time
	p.reply(xid, proto.OK)
	require.NoError(p.t, <-answered)
}

// forget has the peer receive a request and not answer it before a nudge. It returns the time from
// the request to the nudge.
func (p *peer) forget(r *Request, answered outcome) time.Duration {
	p.t.Helper()
	began := time.Now()
	p.send(r, answered)
	h, _ := p.next()
	nudge, body := p.next()
	require.Equal(p.t, proto.OpSync, nudge.Op)
	var path proto.PathRequest
	d := proto.NewDecoder(body)
	path.Decode(&d)
	require.Equal(p.t, "/", path.Path)
	after := time.Since(began)
	p.reply(h.Xid, proto.NoNode)
	require.Error(p.t, <-answered)
	p.reply(nudge.Xid, proto.OK, &proto.PathResponse{Path: "/"})
	synctest.Wait()
	return after
}

func TestARequestThatIsForgottenGetsANudge(t *testing.T) {
	nudging(t, func(t *testing.T, p *peer) {
		for range 3 {
			require.Equal(t, 50*time.Millisecond, p.forget(deletion()))
			for range 40 {
				p.write(0)
			}
			time.Sleep(time.Second) // virtual time
		}
		read := p.forget(request(proto.OpGetData, &proto.ReadRequest{Path: "/a"}))
		require.Less(t, read, 2*time.Second, "a read can be forgotten too")
	})
}

// TestASyncGetsNoNudge: it is one itself, and a slow leader must not get twice as many.
func TestASyncGetsNoNudge(t *testing.T) {
	nudging(t, func(t *testing.T, p *peer) {
		answered := p.send(request(proto.OpSync, &proto.PathRequest{Path: "/"}))
		h, _ := p.next()
		time.Sleep(10 * time.Second) // virtual time
		p.reply(h.Xid, proto.OK, &proto.PathResponse{Path: "/"})
		require.NoError(t, <-answered)
		p.write(0) // a nudge that was sent before would fail this
		require.LessOrEqual(t, p.forget(deletion()), 100*time.Millisecond)
	})
}

// TestOneNudgeAtATime has a server that answers nothing any more: not even the next requests bring
// another nudge.
func TestOneNudgeAtATime(t *testing.T) {
	nudging(t, func(t *testing.T, p *peer) {
		for range 5 {
			p.send(deletion())
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
		<-p.client.Done()
		synctest.Wait()
		require.ErrorIs(t, p.client.Err(), ErrSilent)
		require.Equal(t, map[proto.Op]int{proto.OpDelete: 5, proto.OpSync: 1, proto.OpPing: 1}, counts)
	})
}

// TestARequestBehindANudgeGetsOneToo: it was sent while the nudge was not answered yet, and is
// forgotten in its turn.
func TestARequestBehindANudgeGetsOneToo(t *testing.T) {
	nudging(t, func(t *testing.T, p *peer) {
		first, answered := p.sent()
		nudge, _ := p.next()
		behind, again := p.sent()
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
	nudging(t, func(t *testing.T, p *peer) {
		const usual = 10 * time.Millisecond
		for range 100 {
			p.write(usual) // next would show a nudge
		}
		for range 100 {
			p.write(19 * usual) // and this makes them usual
		}
		for range 100 {
			p.write(usual)
		}
		require.InDelta(t, 20*usual, p.forget(deletion()), float64(usual))
	})
}

// TestForgottenOnceIsNotUsual: the next request that is forgotten must not wait as long as this one
// has.
func TestForgottenOnceIsNotUsual(t *testing.T) {
	nudging(t, func(t *testing.T, p *peer) {
		xid, answered := p.sent()
		nudge, _ := p.next()
		time.Sleep(5 * time.Second) // virtual time: it does not help at once
		p.reply(xid, proto.OK)
		p.reply(nudge.Xid, proto.OK, &proto.PathResponse{Path: "/"})
		require.NoError(t, <-answered)
		require.Less(t, p.forget(deletion()), 200*time.Millisecond)
	})
}

// TestALongRowGetsNoNudges: 100 reads sent at once, each of which takes 20 ms, so that the last one
// takes 2 s.
func TestALongRowGetsNoNudges(t *testing.T) {
	nudging(t, func(t *testing.T, p *peer) {
		var last outcome
		for range 100 {
			last = p.send(request(proto.OpGetData, &proto.ReadRequest{Path: "/a"}))
		}
		for range 100 {
			h, _ := p.next()
			require.Equal(t, proto.OpGetData, h.Op)
			time.Sleep(20 * time.Millisecond) // virtual time
			p.reply(h.Xid, proto.NoNode)
		}
		require.Error(t, <-last)
		p.write(0) // a nudge that was sent before would fail this
	})
}

// TestTheEndOfASessionGetsANudgeToo, though nothing else is sent then.
func TestTheEndOfASessionGetsANudgeToo(t *testing.T) {
	nudging(t, func(t *testing.T, p *peer) {
		p.client.Drain()
		began := time.Now()
		go p.client.CloseSession(t.Context())
		h, _ := p.next()
		require.Equal(t, proto.OpCloseSession, h.Op)
		nudge, _ := p.next()
		require.Equal(t, proto.OpSync, nudge.Op)
		require.Equal(t, 50*time.Millisecond, time.Since(began))
		p.reply(h.Xid, proto.OK)
		<-p.client.Done()
	})
}

// TestAFarServerGetsNoNudges: the handshake has shown how far it is.
func TestAFarServerGetsNoNudges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		slow := &late{Conn: far, by: 200 * time.Millisecond}
		_, p := start(t, time.Hour, Handlers{Nudge: true}, near, slow)
		slow.by = 0
		p.write(3 * time.Second)
		p.write(0) // a nudge that was sent before would fail this
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
		_, p := open(t, time.Hour, Handlers{})
		p.write(10 * time.Second)
		p.write(0)
	})
}

// TestAnIdleConnectionSetsNoTimer: nothing is looked for once everything is answered.
func TestAnIdleConnectionSetsNoTimer(t *testing.T) {
	nudging(t, func(t *testing.T, p *peer) {
		looking := func() bool {
			p.client.mu.Lock()
			defer p.client.mu.Unlock()
			return p.client.nudges.looking
		}
		p.write(time.Millisecond)
		require.True(t, looking())
		time.Sleep(time.Second) // virtual time
		require.False(t, looking())
	})
}
