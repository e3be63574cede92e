package wire

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/timeline"
	"github.com/gocurator/curator/zktest/internal/cluster"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// Config configures a server.
type Config struct {
	tree.Rules
	Timing
	Security
	Limits
	Timeline *timeline.Recorder // nil without one
	Unknown  []proto.Op         // operations on which the server cuts the connection
	Words    []string           // allowed four-letter words; * allows all
}

// Timing configures a server's tick, session timeouts and latency.
type Timing struct {
	Tick       time.Duration
	MinTimeout time.Duration
	MaxTimeout time.Duration
	Latency    time.Duration // delay of each reply
}

// Security configures how clients authenticate.
type Security struct {
	SuperDigest string
	SASLUsers   map[string]string // passwords by user; nil without SASL
	RequireSASL bool
}

// Limits configures the requests and connections that a server accepts.
type Limits struct {
	Containers bool // whether containers are supported
	MaxFrame   int  // maximum size of a request, in bytes
	MaxConns   int  // maximum number of connections per host; 0 for no limit
}

// grant returns the timeout that a client gets.
func (c *Config) grant(h proto.ConnectRequest) time.Duration {
	return min(max(time.Duration(h.Timeout)*time.Millisecond, c.MinTimeout), c.MaxTimeout)
}

// asServed returns a handshake as the server understands it. A Keeper ignores the session and the
// last zxid that the client names, and does not say whether it is read-only.
func (c *Config) asServed(h proto.ConnectRequest) proto.ConnectRequest {
	if c.Keeper != 0 {
		return proto.ConnectRequest{Timeout: h.Timeout}
	}
	return h
}

// handshakeSize is the size of the answer to a handshake.
const handshakeSize = 37

// greeting returns the answer to a handshake. A session that has expired is answered with zeros.
func (c *Config) greeting(h proto.ConnectRequest, sess *cluster.Session) []byte {
	r := proto.ConnectResponse{Password: make([]byte, 16), HasReadOnly: h.HasReadOnly}
	if sess != nil {
		r.Timeout, r.Session = milliseconds(sess.Timeout), sess.ID
		if c.Keeper == 0 {
			r.Password = password(sess.ID)
		}
	}
	return r.Append(proto.Begin(handshakeSize))
}

// rejected is the protocol version in the handshake of a Keeper without a leader.
const rejected = 42

// rejection returns the answer of a Keeper without a leader to a handshake.
func (c *Config) rejection(h proto.ConnectRequest) []byte {
	r := proto.ConnectResponse{Version: rejected, Timeout: milliseconds(c.grant(h)), Session: -1, Password: make([]byte, 16)}
	return r.Append(proto.Begin(handshakeSize))
}

func milliseconds(d time.Duration) int32 { return int32(d.Milliseconds()) }

// password derives a session's password from its id, as a real server does: the first 16 bytes of
// java.util.Random with the id as its seed.
func password(id int64) []byte {
	const mask = 1<<48 - 1
	seed := (uint64(id) ^ 0xB3415C00 ^ 0x5DEECE66D) & mask
	p := make([]byte, 16)
	for i := 0; i < len(p); i += 4 {
		seed = (seed*0x5DEECE66D + 0xB) & mask
		binary.LittleEndian.PutUint32(p[i:], uint32(seed>>16))
	}
	return p
}

// knows reports whether the server knows a request and all its parts.
func (c *Config) knows(r Request) bool {
	if r.Op == proto.OpDeleteContainer && c.Version >= tree.V39 {
		return false // only servers send it, and to themselves
	}
	m, multi := r.Body.(*proto.MultiRequest)
	return !slices.Contains(c.Unknown, r.Op) && !(multi && slices.ContainsFunc(m.Ops, func(part proto.MultiOp) bool {
		return slices.Contains(c.Unknown, part.Op)
	}))
}

// takesZxid reports whether a request is a transaction. If the server reads a request first, one
// that cannot be understood is none.
func (c *Config) takesZxid(r Request) bool {
	switch {
	case r.Op == proto.OpMulti && c.Version >= tree.V39:
		ops := []proto.MultiOp(nil)
		if m, ok := r.Body.(*proto.MultiRequest); ok {
			ops = m.Ops
		}
		if r.Malformed && len(ops) > 0 {
			ops = ops[:len(ops)-1] // the last operation cannot be understood
		}
		_, zxid := tree.AcceptsMulti(ops)
		return zxid
	case r.Malformed && r.Op != proto.OpMulti && (r.Op == proto.OpReconfig || c.Version >= tree.V39):
		return false
	}
	return tree.Writes(r.Op)
}

// unimplemented reports whether the server does not implement an operation. It then answers at
// once, before it has answered earlier requests, and cuts the connection.
func (c *Config) unimplemented(r Request) bool {
	switch r.Op {
	case proto.OpCreateContainer:
		return !c.Containers
	case proto.OpCheck: // it is for a multi
		return true
	case proto.OpPing, proto.OpWhoAmI, proto.OpCloseSession:
		return false
	}
	return r.Body == nil && !tree.Writes(r.Op)
}
