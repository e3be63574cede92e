package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// frame is a frame that holds these records.
func frame(records ...proto.Record) []byte {
	b := proto.Begin(64)
	for _, r := range records {
		b = r.Append(b)
	}
	return proto.Seal(b)
}

// grant is a server's welcome.
func grant(timeout time.Duration) []byte {
	return frame(&proto.ConnectResponse{Timeout: int32(timeout.Milliseconds()), Session: 7, Password: make([]byte, 16)})
}

// peer is the other end of the client's connection, played by a test.
type peer struct {
	t      *testing.T
	client *Conn
	net.Conn
}

// next reads a request.
func (p *peer) next() (proto.RequestHeader, []byte) {
	f, err := proto.ReadFrame(p, 1<<20)
	require.NoError(p.t, err)
	var h proto.RequestHeader
	d := proto.NewDecoder(f)
	h.Decode(&d)
	return h, f[8:]
}

func (p *peer) say(frames ...[]byte) {
	for _, f := range frames {
		_, err := p.Write(f)
		require.NoError(p.t, err)
	}
}

// reply answers a request.
func (p *peer) reply(xid int32, code proto.Code, body ...proto.Record) {
	p.say(frame(append([]proto.Record{&proto.ReplyHeader{Xid: xid, Zxid: 5, Code: code}}, body...)...))
}

// open connects to a peer over a pipe, which the test plays from after the handshake on.
func open(t *testing.T, timeout time.Duration, h Handlers) (*Conn, *peer) {
	t.Helper()
	near, far := net.Pipe()
	return start(t, timeout, h, near, far)
}

func start(t *testing.T, timeout time.Duration, h Handlers, near, far net.Conn) (*Conn, *peer) {
	t.Helper()
	go func() {
		if _, err := proto.ReadFrame(far, 1<<20); err == nil {
			_, _ = far.Write(grant(timeout))
		}
	}()
	c, err := Open(t.Context(), near, Hello{Timeout: timeout})
	require.NoError(t, err)
	if h.Answered == nil {
		h.Answered = func(Answer) error { return nil }
	}
	if h.Event == nil {
		h.Event = func(zk.Event, int64) {}
	}
	if h.Ended == nil {
		h.Ended = func() {}
	}
	c.Start(h)
	t.Cleanup(func() {
		c.Close(nil)
		<-c.Done()
		_ = far.Close()
	})
	return c, &peer{t, c, far}
}

// overTCP returns both ends of a TCP connection.
func overTCP(t testing.TB) (near, far net.Conn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	near, err = net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	far, err = listener.Accept()
	require.NoError(t, err)
	return near, far
}

func request(op proto.Op, body proto.Record) (*Request, outcome) {
	answered := make(outcome, 1)
	return &Request{Op: op, Frame: body.Append(Begin(32)), Handler: answered}, answered
}

func deletion() (*Request, outcome) {
	return request(proto.OpDelete, &proto.VersionRequest{Path: "/a", Version: -1})
}

// send sends a request to the peer, which has not read it yet.
func (p *peer) send(r *Request, answered outcome) outcome {
	p.client.Send(r)
	return answered
}

// sent sends a delete, which the peer reads.
func (p *peer) sent() (xid int32, answered outcome) {
	answered = p.send(deletion())
	h, _ := p.next()
	require.Equal(p.t, proto.OpDelete, h.Op)
	return h.Xid, answered
}

func TestRepliesAndEventsComeInTheOrderOfTheWire(t *testing.T) {
	var order []string
	var answers []Answer
	c, p := open(t, 10*time.Second, Handlers{
		Answered: func(a Answer) error { answers = append(answers, a); return nil },
		Event: func(e zk.Event, zxid int64) {
			require.EqualValues(t, len(order)/2-1, zxid) // -1 before ZooKeeper 3.9
			order = append(order, e.Type.String()+" "+e.Path)
		},
	})
	before := time.Now()
	for range 2 {
		r, last := deletion()
		r.Handler = handlerFunc(func(_ *proto.Decoder, err error) {
			order = append(order, "reply")
			last <- err
		})
		c.Send(r)
		h, body := p.next()
		require.Equal(t, proto.OpDelete, h.Op)
		require.Len(t, body, 10)
		require.EqualValues(t, len(order)/2+1, h.Xid)
		p.say(frame(&proto.ReplyHeader{Xid: proto.XidEvent, Zxid: int64(len(order)/2 - 1)}, &proto.WatcherEvent{Type: 2, State: 3, Path: "/a"}))
		p.reply(h.Xid, proto.OK)
		require.NoError(t, <-last)
	}
	require.Equal(t, []string{"EventNodeDeleted /a", "reply", "EventNodeDeleted /a", "reply"}, order)
	require.Len(t, answers, 2)
	for _, a := range answers {
		require.True(t, a.Committed)
		require.EqualValues(t, 5, a.Zxid)
		require.False(t, a.Sent.Before(before) || a.Received.Before(a.Sent) || a.Received.After(time.Now()))
	}
}

// TestARequestFailsAfterEnded: when a request fails because the connection ended, holders know
// already.
func TestARequestFailsAfterEnded(t *testing.T) {
	for name, test := range map[string]struct {
		answered func(Answer) error
		end      func(p *peer, xid int32)
		why      error
	}{
		"the peer closes": {nil, func(p *peer, _ int32) { require.NoError(p.t, p.Close()) }, io.EOF},
		"the answer is refused": {func(Answer) error { return errUseless }, func(p *peer, xid int32) {
			p.reply(xid, proto.OK)
		}, errUseless},
		"the answer is too short": {nil, func(p *peer, xid int32) {
			p.reply(xid, proto.OK, &proto.NumberResponse{Number: 100})
		}, proto.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			var order []string
			c, p := open(t, 10*time.Second, Handlers{Answered: test.answered, Ended: func() { order = append(order, "ended") }})
			r, answered := request(proto.OpGetData, &proto.ReadRequest{Path: "/a"})
			r.Handler = handlerFunc(func(d *proto.Decoder, err error) {
				if err == nil {
					new(proto.DataResponse).Decode(d)
					return
				}
				order = append(order, "failed")
				answered <- err
			})
			c.Send(r)
			h, _ := p.next()
			test.end(p, h.Xid)
			err := <-answered
			require.ErrorIs(t, err, zk.ErrConnectionClosed)
			<-c.Done()
			require.ErrorIs(t, c.Err(), test.why)
			if test.why == proto.ErrMalformed {
				require.ErrorIs(t, err, proto.ErrMalformed)
			}
			require.Equal(t, []string{"ended", "failed"}, order)
		})
	}
}

var errUseless = errors.New("of no use")

type handlerFunc func(*proto.Decoder, error)

func (f handlerFunc) Reply(d *proto.Decoder, err error) { f(d, err) }

// TestAnAnswerToSomethingElseEndsTheConnection: the call does not wait for ever.
func TestAnAnswerToSomethingElseEndsTheConnection(t *testing.T) {
	for name, lie := range map[string]func(p *peer, first, second int32){
		"the first is missing":     func(p *peer, _, second int32) { p.reply(second, proto.OK) },
		"nobody has asked":         func(p *peer, first, _ int32) { p.reply(first+100, proto.OK) },
		"a ping that was not sent": func(p *peer, _, _ int32) { p.reply(proto.XidPing, proto.OK) },
		"credentials, long ago":    func(p *peer, _, _ int32) { p.reply(proto.XidAuth, proto.OK) },
		"half a header":            func(p *peer, _, _ int32) { p.say([]byte{0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff}) },
		"eleven bytes": func(p *peer, _, _ int32) {
			p.say(append([]byte{0, 0, 0, 11, 0xff, 0xff, 0xff, 0xff}, make([]byte, 7)...))
		},
		"an event without a path":   func(p *peer, _, _ int32) { p.reply(proto.XidEvent, proto.OK) },
		"a frame of negative size":  func(p *peer, _, _ int32) { p.say([]byte{0x80, 0, 0, 0}) },
		"a frame that is too large": func(p *peer, _, _ int32) { p.say([]byte{0x7f, 0, 0, 0}) },
	} {
		t.Run(name, func(t *testing.T) {
			c, p := open(t, 10*time.Second, Handlers{})
			x1, first := p.sent()
			x2, second := p.sent()
			lie(p, x1, x2)
			require.ErrorIs(t, <-first, zk.ErrConnectionClosed)
			require.ErrorIs(t, <-second, zk.ErrConnectionClosed)
			<-c.Done()
			require.Error(t, c.Err())
		})
	}
}

func TestPingsMayBeAnsweredEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := open(t, 9*time.Second, Handlers{})
		xid, waits := p.sent()
		ping, _ := p.next() // a third of the timeout later
		require.Equal(t, proto.RequestHeader{Xid: proto.XidPing, Op: proto.OpPing}, ping)
		p.reply(proto.XidPing, proto.OK)
		p.reply(xid, proto.NoNode)
		require.ErrorIs(t, <-waits, zk.ErrNoNode)
	})
}

// TestARefusalMayComeEarly: a server answers what it does not know at once, and with
// enableEagerACLCheck what is not allowed. So does a Keeper that has too little memory for a write,
// or has lost its leader.
func TestARefusalMayComeEarly(t *testing.T) {
	for code, zxid := range map[proto.Code]int64{
		proto.Unimplemented: -1, proto.NoAuth: 0, proto.InvalidACL: 0, proto.OutOfMemory: 0, proto.ConnectionLoss: 0, proto.OperationTimeout: 0,
	} {
		c, p := open(t, 10*time.Second, Handlers{})
		var numbers []int32
		var answers []outcome
		for range 3 {
			xid, answer := p.sent()
			numbers, answers = append(numbers, xid), append(answers, answer)
		}
		p.say(frame(&proto.ReplyHeader{Xid: numbers[1], Zxid: zxid, Code: code}))
		require.ErrorIs(t, <-answers[1], CodeError(code))
		p.reply(numbers[0], proto.OK)
		require.NoError(t, <-answers[0])
		p.reply(numbers[2], proto.OK)
		require.NoError(t, <-answers[2])
		c.mu.Lock()
		unanswered := c.unanswered
		c.mu.Unlock()
		require.Zero(t, unanswered)
		p.say(frame(&proto.ReplyHeader{Xid: numbers[2], Zxid: zxid, Code: code}))
		<-c.Done()
		require.ErrorIs(t, c.Err(), ErrOutOfOrder)
	}
}

// TestARefusalWithATransactionDoesNotComeEarly: it has its place in the order, so an answer is
// missing.
func TestARefusalWithATransactionDoesNotComeEarly(t *testing.T) {
	c, p := open(t, 10*time.Second, Handlers{})
	p.sent()
	xid, answer := p.sent()
	p.say(frame(&proto.ReplyHeader{Xid: xid, Zxid: 1, Code: proto.NoAuth}))
	require.ErrorIs(t, <-answer, zk.ErrConnectionClosed)
	require.ErrorIs(t, c.Err(), ErrOutOfOrder)
}

func TestCredentialsMayBeAnsweredEarlyAndAreNotifiedOfTheEnd(t *testing.T) {
	var answers atomic.Int32
	c, p := open(t, 10*time.Second, Handlers{Answered: func(Answer) error { answers.Add(1); return nil }})
	xid, waits := p.sent()
	credentials := func() outcome {
		answered := make(outcome, 1)
		c.Send(&Request{Op: proto.OpAuth, Frame: Begin(0), Handler: answered})
		auth, _ := p.next()
		require.Equal(t, proto.RequestHeader{Xid: proto.XidAuth, Op: proto.OpAuth}, auth)
		return answered
	}
	accepted := credentials()
	p.reply(proto.XidAuth, proto.OK)
	require.NoError(t, <-accepted)
	require.Zero(t, answers.Load(), "it does not show that the server has heard the session")
	p.reply(xid, proto.NoNode)
	require.ErrorIs(t, <-waits, zk.ErrNoNode)
	require.EqualValues(t, 1, answers.Load())
	first, second := credentials(), credentials()
	p.reply(proto.XidAuth, proto.AuthFailed)
	p.Close()
	require.ErrorIs(t, <-first, zk.ErrAuthFailed)
	require.ErrorIs(t, <-second, zk.ErrConnectionClosed)
}

func TestAPingEachThirdAndSilenceForTwoThirdsIsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c, p := open(t, 9*time.Second, Handlers{})
		for n := range 5 {
			h, _ := p.next()
			require.Equal(t, proto.OpPing, h.Op)
			require.Equal(t, time.Duration(n+1)*3*time.Second, time.Since(began))
			p.reply(proto.XidPing, proto.OK)
		}
		_, _ = p.next() // and no answer from here on
		<-c.Down()
		require.Equal(t, 5*3*time.Second+6*time.Second, time.Since(began))
		<-c.Done()
		require.ErrorIs(t, c.Err(), ErrSilent)
	})
}

func TestSendingDoesNotWaitForAPeerThatDoesNotRead(t *testing.T) {
	c, p := open(t, 10*time.Second, Handlers{})
	first := p.send(deletion()) // returns at once, or the test hangs
	second := p.send(deletion())
	c.Close(nil)
	require.Error(t, <-first, "whoever waits hears of the end")
	require.Error(t, <-second)
}

func TestAWriteThatCouldWaitIsLeftToTheLoop(t *testing.T) {
	near, far := overTCP(t)
	c, _ := start(t, time.Hour, Handlers{}, near, far)
	const n = 50_000 // more than any buffer on the way has room for
	answered := make(outcome, n)
	for range n {
		r, _ := deletion()
		r.Handler = answered
		c.Send(r)
	}
	go answerAll(far)
	for range n {
		require.ErrorIs(t, <-answered, zk.ErrNoNode)
	}
}

// answerAll is a peer that answers every request, until the connection ends.
func answerAll(far net.Conn) {
	frames := proto.NewFrameReader(far, 1<<20)
	var out []byte
	for {
		f, err := frames.Next()
		if err != nil {
			return
		}
		var h proto.RequestHeader
		d := proto.NewDecoder(f)
		h.Decode(&d)
		reply := proto.ReplyHeader{Xid: h.Xid, Zxid: 7, Code: proto.NoNode}
		out = proto.Seal(reply.Append(append(out[:0], 0, 0, 0, 0)))
		if _, err := far.Write(out); err != nil {
			return
		}
	}
}

func TestWrittenIsCalledBeforeTheAnswer(t *testing.T) {
	c, p := open(t, 10*time.Second, Handlers{})
	written := make(chan struct{})
	r, waits := deletion()
	r.Written = func() { close(written) }
	c.Send(r)
	h, _ := p.next()
	<-written
	p.reply(h.Xid, proto.OK)
	require.NoError(t, <-waits)
}

func TestClosingTheSessionComesAfterEverythingElse(t *testing.T) {
	c, p := open(t, 10*time.Second, Handlers{})
	waits := p.send(deletion())
	over := make(chan struct{})
	go func() {
		c.CloseSession(t.Context())
		close(over)
	}()
	first, _ := p.next()
	last, _ := p.next()
	require.Equal(t, []proto.Op{proto.OpDelete, proto.OpCloseSession}, []proto.Op{first.Op, last.Op})
	p.reply(first.Xid, proto.OK)
	require.NoError(t, <-waits)
	p.reply(last.Xid, proto.OK)
	<-over
	<-c.Done()
}

func TestClosingTheSessionGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := open(t, time.Minute, Handlers{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c.CloseSession(ctx) // the peer does not even read
		<-c.Done()
	})
}

func TestCodes(t *testing.T) {
	require.NoError(t, CodeError(proto.OK))
	require.Equal(t, zk.ErrNoNode, CodeError(proto.NoNode))
	require.ErrorIs(t, fmt.Errorf("get: %w", CodeError(proto.Throttled)), ServerError(proto.Throttled))
	require.EqualError(t, CodeError(proto.QuotaExceeded), "zk: quota exceeded (-125)")
	require.EqualError(t, CodeError(-99), "zk: code -99 (-99)")
	for code, want := range map[proto.Code]verdict.Verdict{
		proto.ConnectionLoss: verdict.Lost, proto.OperationTimeout: verdict.Lost, proto.RequestTimeout: verdict.Lost,
		proto.Throttled: verdict.Refused, proto.OutOfMemory: verdict.Refused, proto.QuotaExceeded: verdict.Answered, proto.RuntimeInconsistency: verdict.Answered,
		proto.NotReadOnly: verdict.Answered, -99: verdict.Answered,
	} {
		require.Equal(t, want, verdict.Of(fmt.Errorf("get: %w", CodeError(code))), code)
	}
}

// BenchmarkRequest is a round trip to a peer that does nothing but answer.
func BenchmarkRequest(b *testing.B) {
	near, far := overTCP(b)
	go func() {
		_, _ = proto.ReadFrame(far, 1<<20)
		_, _ = far.Write(grant(10 * time.Second))
		answerAll(far)
		far.Close()
	}()
	c, err := Open(b.Context(), near, Hello{Timeout: 10 * time.Second})
	assert.NoError(b, err)
	c.Start(Handlers{Answered: func(Answer) error { return nil }, Event: func(zk.Event, int64) {}, Ended: func() {}, Nudge: true})
	body := &proto.VersionRequest{Path: "/a", Version: -1}
	waits := make(outcome, 1)
	b.ReportAllocs()
	for b.Loop() {
		c.Send(&Request{Op: proto.OpDelete, Frame: body.Append(Begin(32)), Handler: waits})
		<-waits
	}
	c.Close(nil)
	<-c.Done()
}

func TestDrainLetsOnlyTheLastRequestsPass(t *testing.T) {
	c, p := open(t, 10*time.Second, Handlers{})
	c.Drain()
	require.ErrorIs(t, <-p.send(deletion()), zk.ErrNoServer)
	r, waits := deletion()
	r.Last = true
	c.Send(r)
	h, _ := p.next()
	p.reply(h.Xid, proto.OK)
	require.NoError(t, <-waits)
}

// TestARequestAfterTheEndFailsAfterEnded: the connection has ended, and Ended has not returned yet.
func TestARequestAfterTheEndFailsAfterEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		c, p := open(t, 10*time.Second, Handlers{Ended: func() { <-ended }})
		c.Close(ErrSilent)
		answered := p.send(deletion())
		synctest.Wait()
		require.Empty(t, answered, "holders do not know yet")
		close(ended)
		require.ErrorIs(t, <-answered, zk.ErrNoServer)
		<-c.Done()
		require.ErrorIs(t, <-p.send(deletion()), zk.ErrNoServer)
	})
}
