package conn

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

var (
	// ErrExpired is returned when the server reports that the requested session has expired.
	ErrExpired = errors.New("session expired")

	// ErrRefused is returned if the peer has no leader, is read-only, or does not speak the
	// protocol.
	ErrRefused = errors.New("not a usable server")
)

// maxFrame is far above any jute.maxbuffer in use. It bounds the memory that a broken peer can make
// the client allocate.
const maxFrame = 256 << 20

// maxGrant limits a granted timeout that is longer than requested. Servers grant more only if the
// request is below their minimum, which is two ticks, 4 s by default. Counting with less is safe:
// the session counts as lost too early, never too late. Without the limit, a grant of 24 days would
// delay the next session as long.
const maxGrant = 10 * time.Minute

// Hello is the client's side of the handshake.
type Hello struct {
	Session  int64 // 0: a new one
	Password []byte
	Timeout  time.Duration
	LastZxid int64 // a server that is behind this transaction refuses
	SASL     *SASL // nil: none
	Auths    []Auth
	Numbers  *Numbers // shared by all connections of the session; nil: of this one
}

// Numbers numbers the requests of a session. No number is used twice within a session.
//
// A server identifies the transactions of its clients by session and number. If a session moved to
// another server and reused a number, the server could answer with the reply to the earlier
// request.
type Numbers struct{ last atomic.Int32 }

// next returns the next number. After the largest it restarts at 1: negative numbers are reserved.
func (n *Numbers) next() int32 {
	for {
		last := n.last.Load()
		if next := max(last+1, 1); n.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// SASL is an exchange that authenticates the client.
type SASL struct {
	Name  string // name of the mechanism
	First []byte // the first token
	// Next returns the answer to a token of the server. If done is true, the exchange succeeds with
	// the server's reply to answer, or at once if answer is nil.
	Next func(token []byte) (answer []byte, done bool, err error)
}

// Auth are credentials.
type Auth struct {
	Scheme string
	Cred   []byte
}

// Grant is the session that a server grants.
type Grant struct {
	Session  int64         // not 0
	Timeout  time.Duration // at most the requested timeout, or ten minutes if that is more
	Password []byte
}

// Open performs the handshake on nc, and presents credentials: SASL first. If it fails, it closes
// nc.
//
// Errors are
//   - an error that wraps ctx's error if ctx is done;
//   - [ErrExpired] if the session of hello has expired;
//   - [ErrRefused] if the peer has no leader, is read-only, or does not speak the protocol;
//   - zk.ErrAuthFailed if the server refuses the credentials;
//   - a network error.
func Open(ctx context.Context, nc net.Conn, hello Hello) (*Conn, error) {
	c := &Conn{
		nc:      nc,
		numbers: cmp.Or(hello.Numbers, &Numbers{}),
		heard:   stamped{Reader: nc, base: time.Now()},
		roomy:   isSocket(nc),
		down:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	c.nudges.timer = time.NewTimer(time.Hour)
	c.nudges.timer.Stop()
	c.in.frames = proto.NewFrameReader(&c.heard, maxFrame)
	stop := context.AfterFunc(ctx, func() {
		if nc.SetDeadline(time.Unix(1, 0)) != nil { // in the past
			_ = nc.Close() // nc has no deadlines, as one through SSH
		}
	})
	err := c.handshake(hello)
	if err == nil && hello.SASL != nil {
		err = c.exchange(hello.SASL)
	}
	if err == nil {
		err = c.authenticate(hello.Auths)
	}
	if !stop() {
		err = &ended{wait.Err(ctx), err}
	}
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	return c, nil
}

func (c *Conn) handshake(hello Hello) error {
	password := hello.Password
	if password == nil {
		password = make([]byte, 16)
	}
	request := proto.ConnectRequest{
		LastZxid:    hello.LastZxid,
		Timeout:     int32(hello.Timeout.Milliseconds()),
		Session:     hello.Session,
		Password:    password,
		HasReadOnly: true, // servers warn of clients that omit it
	}
	c.Sent = time.Now()
	if _, err := c.nc.Write(proto.Seal(request.Append(proto.Begin(64)))); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	frame, err := c.in.frames.Next()
	if errors.Is(err, proto.ErrFrameLength) {
		return fmt.Errorf("handshake: %w: %w", ErrRefused, err)
	}
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	var reply proto.ConnectResponse
	d := proto.NewDecoder(frame)
	reply.Decode(&d)
	if err := c.accept(reply, d.Err()); err != nil {
		return err
	}
	c.Grant.Timeout = min(c.Grant.Timeout, max(hello.Timeout, maxGrant))
	return nil
}

// accept checks a server's grant.
func (c *Conn) accept(reply proto.ConnectResponse, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("handshake: %w: %w", ErrRefused, err)
	case reply.Session == -1 && reply.Version != 0:
		// ClickHouse Keeper. Real ids may be negative too.
		return fmt.Errorf("handshake: %w: no leader", ErrRefused)
	case reply.Session == 0:
		return fmt.Errorf("handshake: %w", ErrExpired)
	case reply.Timeout <= 0:
		return fmt.Errorf("handshake: %w: session timeout of %d ms granted", ErrRefused, reply.Timeout)
	case reply.ReadOnly:
		return fmt.Errorf("handshake: %w: read-only", ErrRefused)
	}
	c.nudges.usual = c.heard.at().Sub(c.Sent) // a session is granted by the leader: as good as a write
	c.Grant = Grant{reply.Session, time.Duration(reply.Timeout) * time.Millisecond, reply.Password}
	return nil
}

// exchange authenticates the client with SASL.
func (c *Conn) exchange(s *SASL) error {
	answer, last := s.First, false
	for {
		token, err := c.sayToken(s.Name, answer)
		if err != nil || last {
			return err
		}
		if answer, last, err = s.Next(token); err != nil {
			return fmt.Errorf("SASL %s: %w: %w", s.Name, zk.ErrAuthFailed, err)
		}
		if last && answer == nil {
			return nil
		}
	}
}

// sayToken sends a SASL token, and returns the server's.
func (c *Conn) sayToken(mechanism string, token []byte) ([]byte, error) {
	xid := c.numbers.next()
	header := proto.RequestHeader{Xid: xid, Op: proto.OpSASL}
	request := proto.SASLToken{Token: append([]byte{}, token...)} // ZooKeeper fails on nil, which is no token
	if _, err := c.nc.Write(proto.Seal(request.Append(header.Append(proto.Begin(64 + len(token)))))); err != nil {
		return nil, fmt.Errorf("SASL %s: %w", mechanism, err)
	}
	frame, err := c.in.frames.Next()
	if err != nil {
		return nil, fmt.Errorf("SASL %s: %w", mechanism, err)
	}
	var reply proto.ReplyHeader
	var said proto.SASLToken
	d := proto.NewDecoder(frame)
	reply.Decode(&d)
	switch {
	case d.Err() != nil || reply.Xid != xid:
		return nil, fmt.Errorf("SASL %s: %w: unexpected reply (xid %d)", mechanism, ErrRefused, reply.Xid)
	case reply.Code == proto.AuthFailed:
		return nil, fmt.Errorf("SASL %s: %w", mechanism, zk.ErrAuthFailed)
	case reply.Code != proto.OK:
		return nil, fmt.Errorf("SASL %s: %w: %w", mechanism, zk.ErrAuthFailed, CodeError(reply.Code))
	}
	if said.Decode(&d); d.Err() != nil {
		return nil, fmt.Errorf("SASL %s: %w: %w", mechanism, ErrRefused, d.Err())
	}
	return bytes.Clone(said.Token), nil // the frame belongs to the reader
}

// authenticate presents credentials, one after the other.
func (c *Conn) authenticate(auths []Auth) error {
	for _, a := range auths {
		header := proto.RequestHeader{Xid: proto.XidAuth, Op: proto.OpAuth}
		request := proto.AuthRequest{Scheme: a.Scheme, Cred: a.Cred}
		if _, err := c.nc.Write(proto.Seal(request.Append(header.Append(proto.Begin(64))))); err != nil {
			return fmt.Errorf("auth: %w", err)
		}
		frame, err := c.in.frames.Next()
		if err != nil {
			return fmt.Errorf("auth: %w", err)
		}
		var reply proto.ReplyHeader
		d := proto.NewDecoder(frame)
		reply.Decode(&d)
		switch {
		case d.Err() != nil || reply.Xid != proto.XidAuth:
			return fmt.Errorf("auth: %w: unexpected reply (xid %d)", ErrRefused, reply.Xid)
		case reply.Code != proto.OK:
			return fmt.Errorf("auth scheme %q: %w", a.Scheme, zk.ErrAuthFailed)
		}
	}
	return nil
}

// ended is the error of a handshake whose context has ended. Its text omits the failure of the read
// or write that the end of the context has caused.
type ended struct{ by, err error }

func (e *ended) Error() string {
	if e.err == nil || errors.Is(e.err, os.ErrDeadlineExceeded) || errors.Is(e.err, net.ErrClosed) {
		return "handshake: " + e.by.Error()
	}
	return e.err.Error()
}

func (e *ended) Unwrap() []error {
	if e.err == nil {
		return []error{e.by}
	}
	return []error{e.by, e.err}
}

// stamped records when data was last read.
type stamped struct {
	io.Reader
	base time.Time
	last atomic.Int64 // nanoseconds since base
}

func (s *stamped) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if n > 0 {
		s.last.Store(int64(time.Since(s.base)))
	}
	return n, err
}

// at returns when data was last read.
func (s *stamped) at() time.Time { return s.base.Add(time.Duration(s.last.Load())) }
