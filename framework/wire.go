package framework

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// go-zookeeper's Conn is used for one TCP connection and then thrown away. Left
// to itself it would reconnect, and then send what was left in its queue in
// whichever session it got, set its watches again and not say when that failed, and
// keep the session's id, password and timeout to itself. So the handshake is made
// here, before there is a Conn, and the Conn is handed a connection that plays a
// server which agrees to everything (see [wire] and [farewell]).

// Operation codes and transaction ids of the protocol that matter here.
const (
	opCreate          = 1
	opDelete          = 2
	opGetData         = 4
	opSetData         = 5
	opSetACL          = 7
	opSync            = 9
	opGetChildren2    = 12
	opMulti           = 14
	opCreate2         = 15
	opReconfig        = 16
	opCreateContainer = 19
	opCreateTTL       = 21
	opSetAuth         = 100
	opCloseSession    = -11

	xidWatchEvent = -1
	xidPing       = -2
	xidAuth       = -4
)

// viaLeader reports whether an answer to op can only come through the leader.
func viaLeader(op int32) bool {
	switch op {
	case opCreate, opDelete, opSetData, opSetACL, opSync, opMulti, opCreate2, opReconfig, opCreateContainer, opCreateTTL:
		return true
	}
	return false
}

// grant is what a server says of a session when a connection is made.
type grant struct {
	id       int64 // 0: the session that was asked for is over
	timeout  time.Duration
	password []byte
}

// handshake asks the server at the other end of conn for a session: for old,
// if it has an id, or else for a new one. lastZxid keeps us from servers that are
// behind what we have seen. The caller sets deadlines on conn.
func handshake(conn io.ReadWriter, old grant, lastZxid int64) (grant, error) {
	password := old.password
	if password == nil {
		password = make([]byte, 16)
	}
	req := make([]byte, 4, 4+28+4+len(password))
	req = binary.BigEndian.AppendUint32(req, 0) // protocol version
	req = binary.BigEndian.AppendUint64(req, uint64(lastZxid))
	req = binary.BigEndian.AppendUint32(req, uint32(old.timeout.Milliseconds()))
	req = binary.BigEndian.AppendUint64(req, uint64(old.id))
	req = appendBytes(req, password)
	if _, err := conn.Write(sealed(req)); err != nil {
		return grant{}, err
	}
	reply, err := readFrame(conn)
	if err != nil {
		return grant{}, err
	}
	reply = reply[4:]
	if len(reply) < 20 {
		return grant{}, fmt.Errorf("connect reply of %d bytes is too short", len(reply))
	}
	size := int(int32(binary.BigEndian.Uint32(reply[16:])))
	if size < 0 || size > len(reply)-20 {
		return grant{}, fmt.Errorf("connect reply claims a password of %d bytes", size)
	}
	return grant{
		timeout:  time.Duration(int32(binary.BigEndian.Uint32(reply[4:]))) * time.Millisecond,
		id:       int64(binary.BigEndian.Uint64(reply[8:])),
		password: append([]byte(nil), reply[20:20+size]...),
	}, nil
}

// authenticate presents credentials. Doing it here, before the Conn exists,
// avoids go-zookeeper's own way, which can deadlock.
func authenticate(conn io.ReadWriter, auths []auth) error {
	for _, a := range auths {
		req := header(xidAuth, opSetAuth)
		req = binary.BigEndian.AppendUint32(req, 0)
		req = appendBytes(req, []byte(a.scheme))
		req = appendBytes(req, a.cred)
		if _, err := conn.Write(sealed(req)); err != nil {
			return err
		}
		reply, err := readFrame(conn)
		if err != nil {
			return err
		}
		if _, _, code, ok := replyHeader(reply); !ok || code != 0 {
			return fmt.Errorf("auth scheme %q: %w", a.scheme, zk.ErrAuthFailed)
		}
	}
	return nil
}

// wire is the connection that a [zk.Conn] talks over. It answers the Conn's own
// handshake with what was agreed before, notes when each request was sent and
// answered, and hides failed writes: a Conn that gets a write error answers
// the request twice, and can then block for good when it is closed.
type wire struct {
	net.Conn // for the deadlines and addresses
	in       *bufio.Reader
	answered func(answer)
	roomy    bool // a short write does not wait for a reader

	greeted bool   // the Conn has sent its connect request; used by its loop only
	pending []byte // what Read has yet to hand out; used by the receive loop only

	down     chan struct{} // closed when the connection is of no more use
	downOnce sync.Once
	more     chan struct{} // capacity 1: there is something in outbox

	out sync.Mutex // held while writing, so that what is sent is in the order of inFlight

	mu         sync.Mutex // guards what follows
	inFlight   []sentRequest
	unanswered int // bytes of those
	outbox     []*ownRequest
	lastXid    int32 // of our own requests
	failed     bool  // nothing is sent any more
}

// answer is what a reply tells about the session.
type answer struct {
	sent, received time.Time
	viaLeader      bool
	zxid           int64 // of the last transaction that the server knew of; not positive if it did not say
	code           int32
}

// codeExpired says that there is no such session. A server that says so need not hang up: it
// answers pings and reads of a session that has ended, if the client came back to it
// at that very moment.
const codeExpired = -112

type sentRequest struct {
	xid, op int32
	at      time.Time
	size    int
	own     *ownRequest // nil for those of the Conn
}

// ownRequest is a request that does not go through the Conn: see [ask]. Its functions must not
// block.
type ownRequest struct {
	op      int32
	frame   []byte                        // with room for the length and the xid
	written func()                        // nil, or called when it has been written
	reply   func(frame []byte, err error) // called once: with the answer, or why there is none
}

func newWire(conn net.Conn, in *bufio.Reader, g grant, answered func(answer)) *wire {
	return &wire{
		Conn:     conn,
		in:       in,
		answered: answered,
		roomy:    isSocket(conn),
		pending:  connectReply(g),
		down:     make(chan struct{}),
		more:     make(chan struct{}, 1),
	}
}

// Write gets one whole frame per call; that is how go-zookeeper writes.
func (w *wire) Write(frame []byte) (int, error) {
	if !w.greeted {
		w.greeted = true // the connect request: answered by pending
		return len(frame), nil
	}
	w.out.Lock()
	defer w.out.Unlock()
	if xid, op, ok := requestHeader(frame); ok {
		w.mu.Lock()
		w.note(sentRequest{xid: xid, op: op, size: len(frame)})
		w.mu.Unlock()
	}
	w.put(frame)
	return len(frame), nil
}

// note remembers a request that is about to be written. Before it is, because the instant must not
// be later than the server's. w.mu is held.
func (w *wire) note(r sentRequest) {
	r.at = time.Now()
	w.inFlight = append(w.inFlight, r)
	w.unanswered += r.size
}

// put writes. w.out is held.
func (w *wire) put(frames []byte) {
	if _, err := w.Conn.Write(frames); err != nil {
		w.Close() // the receive loop finds out and tells everybody
	}
}

// maxDirect is how many bytes can be on their way to a server that does not read, without
// making a write wait: less than any socket has room for.
const maxDirect = 4 << 10

// send sends a request of our own, now if that cannot take long, or else as soon as writeLoop
// comes to it. It does not block.
func (w *wire) send(r *ownRequest) {
	w.mu.Lock()
	if w.failed {
		w.mu.Unlock()
		r.reply(nil, zk.ErrNoServer) // it was not sent
		return
	}
	// What was answered was read. So if little is unanswered, there is room.
	if !w.roomy || len(w.outbox) > 0 || w.unanswered+len(r.frame) > maxDirect || !w.out.TryLock() {
		w.outbox = append(w.outbox, r)
		w.mu.Unlock()
		select {
		case w.more <- struct{}{}:
		default:
		}
		return
	}
	w.begin(r)
	w.mu.Unlock()
	w.put(r.frame)
	w.out.Unlock()
	if r.written != nil {
		r.written()
	}
}

// isSocket reports whether the operating system holds what is written until it is read. A pipe in
// memory does not.
func isSocket(conn net.Conn) bool {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// firstXid is far from the numbers that the Conn begins with. Should it come to them all the same,
// answers are told apart by their order.
const firstXid = 1 << 30

// begin gives a request of ours its number. w.mu is held.
func (w *wire) begin(r *ownRequest) {
	w.lastXid = max(w.lastXid+1, firstXid) // it turns negative at the end
	binary.BigEndian.PutUint32(r.frame[4:], uint32(w.lastXid))
	sealed(r.frame)
	w.note(sentRequest{xid: w.lastXid, op: r.op, size: len(r.frame), own: r})
}

// writeLoop sends what send could not send at once. It returns when the connection ends.
func (w *wire) writeLoop() {
	for {
		select {
		case <-w.more:
		case <-w.down:
			return
		}
		w.out.Lock()
		w.mu.Lock()
		batch := w.outbox
		w.outbox = nil
		var frames []byte
		for _, r := range batch {
			w.begin(r)
			frames = append(frames, r.frame...)
		}
		w.mu.Unlock()
		if len(frames) > 0 {
			w.put(frames)
		}
		w.out.Unlock()
		for _, r := range batch {
			if r.written != nil {
				r.written()
			}
		}
	}
}

func (w *wire) Read(p []byte) (int, error) {
	for len(w.pending) == 0 {
		frame, err := readFrame(w.in)
		if err != nil {
			w.Close()
			return 0, err
		}
		if own := w.noteReply(frame); own != nil {
			own.reply(frame, nil)
			continue
		}
		w.pending = frame
	}
	n := copy(p, w.pending)
	w.pending = w.pending[n:]
	return n, nil
}

// noteReply returns the request of ours that a frame answers, if it is one.
func (w *wire) noteReply(frame []byte) *ownRequest {
	xid, zxid, code, ok := replyHeader(frame)
	if !ok || xid == xidWatchEvent {
		return nil
	}
	received := time.Now()
	w.mu.Lock()
	var req sentRequest
	found := false
	// Answers come in the order of the requests, so it is nearly always the
	// first; only a ping may overtake.
	for i := range w.inFlight {
		if w.inFlight[i].xid == xid {
			req, found = w.inFlight[i], true
			if i == 0 {
				w.inFlight = w.inFlight[1:]
			} else {
				w.inFlight = append(w.inFlight[:i], w.inFlight[i+1:]...)
			}
			w.unanswered -= req.size
			break
		}
	}
	w.mu.Unlock()
	if found {
		w.answered(answer{req.at, received, viaLeader(req.op), zxid, code})
	}
	return req.own
}

// Close may be called by anyone, any number of times.
func (w *wire) Close() error {
	err := w.Conn.Close()
	w.downOnce.Do(func() {
		close(w.down)
		w.fail()
	})
	return err
}

// fail answers for the server.
func (w *wire) fail() {
	w.mu.Lock()
	w.failed = true
	sent, unsent := w.inFlight, w.outbox
	w.inFlight, w.outbox = nil, nil
	w.mu.Unlock()
	for _, r := range sent {
		if r.own != nil {
			r.own.reply(nil, zk.ErrConnectionClosed)
		}
	}
	for _, r := range unsent {
		r.reply(nil, zk.ErrNoServer)
	}
}

// farewell is what a [zk.Conn] gets when it reconnects on its own. It greets the
// Conn like a server and answers nothing but the closing of the session, so
// that closing a Conn whose connection is gone ends at once and in good order.
type farewell struct {
	net.Conn // the client end of a pipe
}

// newFarewell returns the Conn's end. The other end is served until that one is
// closed.
func newFarewell(wg *sync.WaitGroup, g grant) net.Conn {
	client, server := net.Pipe()
	wg.Go(func() { // ends when either end is closed, by the Conn at the latest
		defer server.Close()
		if _, err := readFrame(server); err != nil {
			return
		}
		if _, err := server.Write(connectReply(g)); err != nil {
			return
		}
		for {
			frame, err := readFrame(server)
			if err != nil {
				return
			}
			if xid, op, ok := requestHeader(frame); ok && op == opCloseSession {
				reply := binary.BigEndian.AppendUint32(make([]byte, 4, 20), uint32(xid))
				reply = append(reply, make([]byte, 12)...) // zxid and error: none
				if _, err := server.Write(sealed(reply)); err != nil {
					return
				}
			}
		}
	})
	return farewell{client}
}

// Frames. Each has its length in its first four bytes.

// maxFrame is far above any jute.maxbuffer in use, and keeps a broken
// peer from making us allocate without bound.
const maxFrame = 256 << 20

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, fmt.Errorf("frame of %d bytes is too long", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// sealed writes a frame's length into the space left for it.
func sealed(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

func header(xid, op int32) []byte {
	frame := binary.BigEndian.AppendUint32(make([]byte, 4, 64), uint32(xid))
	return binary.BigEndian.AppendUint32(frame, uint32(op))
}

func requestHeader(frame []byte) (xid, op int32, ok bool) {
	if len(frame) < 12 {
		return 0, 0, false
	}
	return int32(binary.BigEndian.Uint32(frame[4:])), int32(binary.BigEndian.Uint32(frame[8:])), true
}

func replyHeader(frame []byte) (xid int32, zxid int64, code int32, ok bool) {
	if len(frame) < 20 {
		return 0, 0, 0, false
	}
	return int32(binary.BigEndian.Uint32(frame[4:])), int64(binary.BigEndian.Uint64(frame[8:])), int32(binary.BigEndian.Uint32(frame[16:])), true
}

func appendBytes(frame, b []byte) []byte {
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(b)))
	return append(frame, b...)
}

func connectReply(g grant) []byte {
	reply := make([]byte, 8, 40) // length, protocol version
	reply = binary.BigEndian.AppendUint32(reply, uint32(g.timeout.Milliseconds()))
	reply = binary.BigEndian.AppendUint64(reply, uint64(g.id))
	return sealed(appendBytes(reply, g.password))
}
