package zktest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gocurator/curator/internal/proto"
)

// KeeperAge says which ClickHouse Keeper a server is like. See [LikeKeeper].
type KeeperAge int

const (
	// KeeperOld is a Keeper of 2022 (before 22.10). It has no /keeper. It knows the operations of ZooKeeper 3.4, without
	// setWatches: no create2, checkWatches, removeWatches, reconfig, containers, TTL nodes,
	// multiRead, setWatches2 or addWatch.
	KeeperOld KeeperAge = iota + 1

	// KeeperRecent is a Keeper of 2025. It does not know createContainer, createTTL,
	// getEphemerals, getAllChildrenNumber, whoAmI and SASL.
	KeeperRecent

	// KeeperNew is a Keeper of the middle of 2026 (26.6). It answers a request for a container
	// with "bad arguments" (-8), and one for a child of a TTL node, too. It has TTL nodes if [WithTTLNodes] is given.
	// The numbers of sequential nodes go on after 2^31 - 1; here they end at 2^32 - 1.
	KeeperNew

	// KeeperNewest is a Keeper of autumn 2026. It differs from KeeperNew in two things: it makes containers, whose
	// ephemeralOwner clients see as the least number of 64 bits, and it answers a check of its own nodes with "bad arguments".
	KeeperNewest
)

// keeperUnknown are the operations that each Keeper does not know.
var keeperUnknown = map[KeeperAge][]Op{
	KeeperOld: {
		OpCreate2, OpReconfig, OpCheckWatches, OpRemoveWatches, OpCreateContainer, Op(proto.OpDeleteContainer), OpCreateTTL, OpMultiRead,
		OpSetWatches, OpGetEphemerals, OpGetChildrenNumber, OpSetWatches2, OpAddWatch, OpWhoAmI, OpSASL,
	},
	KeeperRecent: {OpCreateContainer, Op(proto.OpDeleteContainer), OpCreateTTL, OpGetEphemerals, OpGetChildrenNumber, OpWhoAmI, OpSASL},
	KeeperNew:    {Op(proto.OpDeleteContainer), OpGetEphemerals, OpGetChildrenNumber, OpWhoAmI, OpSASL},
	KeeperNewest: {Op(proto.OpDeleteContainer), OpGetEphemerals, OpGetChildrenNumber, OpWhoAmI, OpSASL},
}

// LikeKeeper makes a server that differs from ZooKeeper as ClickHouse Keeper does. That is read from its sources, as of autumn 2026,
// and from what its users have measured; no real one was tried.
//
//   - An operation that it does not know is not answered: the connection is cut. See [WithUnknownOps] to choose
//     the operations one by one.
//   - A session is never restored. A client that asks for one gets a new session with another id. The old
//     session ends when its time has passed, and then its ephemeral nodes are deleted.
//   - The event of a recursive watch carries the path of the watch, not that of the node.
//   - The password of every session is 16 zeros.
//   - In the stat of a node, pzxid stays as it is when a child is deleted, and cversion also counts writes of the children's data.
//   - There is no /zookeeper. Keepers after 2022 have /keeper/api_version, /keeper/feature_flags and, with the
//     configuration, /keeper/config. A Keeper with the data of a ZooKeeper has both: make /zookeeper with [Server.Create].
//     A client that changes /keeper or a node below it, or makes one there, is answered with "bad arguments" (-8).
//   - There is a feature flag for some operations: multiRead, create2, those of persistent watches, and createTTL. Where it is off,
//     the operation is one that the Keeper does not know. Here all that the age has are on, except that for createTTL, which is on
//     with [WithTTLNodes].
//
// Of what Keepers have and ZooKeeper has not there is nothing here: the operations from 500 on, /keeper/availability_zone and
// /keeper/max_request_size. Sessions get what [WithSessionTimeouts] says; a Keeper grants 10 s to 100 s by default.
//
// [Server.RefuseSessions] is a Keeper without a leader. [Server.Stop] is the end of its process. A Keeper that is stopped in the
// normal way has the sessions of its clients ended before that: see [Server.ExpireSession].
func LikeKeeper(age KeeperAge) Option {
	return func(c *config) error {
		if keeperUnknown[age] == nil {
			return fmt.Errorf("zktest: no such Keeper: %d", int(age))
		}
		c.keeper = age
		return WithUnknownOps(keeperUnknown[age]...)(c)
	}
}

// WithUnknownOps makes a server that does not know these operations: it cuts the connection
// that sends one, alone or in a multi, and does not answer. The handshake, pings and the end of
// a session are always known.
func WithUnknownOps(ops ...Op) Option {
	return func(c *config) error {
		for _, op := range ops {
			if op == OpConnect || op == OpPing || op == OpCloseSession {
				return fmt.Errorf("zktest: a server has to know %s", op)
			}
		}
		c.unknown = append(c.unknown, ops...)
		return nil
	}
}

// knows reports whether a request and all its parts are known to the server.
func (c *config) knows(r Request) bool {
	if r.Op == Op(proto.OpDeleteContainer) && c.version >= V3_9 {
		return false // only servers send it, and to themselves
	}
	return !slices.Contains(c.unknown, r.Op) && !slices.ContainsFunc(r.Parts, func(part Request) bool {
		return slices.Contains(c.unknown, part.Op)
	})
}

// RefuseSessions makes the server answer handshakes as a ClickHouse Keeper without a leader does, until it is
// called with false: with session id -1, the timeout that would be granted and protocol version 42, which no
// client asks for. Then it closes the connection. Connections that have a session stay: see
// [Server.CutConnections].
func (s *Server) RefuseSessions(refuse bool) {
	s.refuse(sessions, refuse)
}

// rejected is the protocol version in the handshake of a Keeper without a leader.
const rejected = 42

// rejection is the answer to a handshake where there is no leader.
func (c *config) rejection(h proto.ConnectRequest) []byte {
	r := proto.ConnectResponse{Version: rejected, Timeout: milliseconds(c.grant(h)), Session: -1, Password: make([]byte, 16)}
	return r.Append(proto.Begin(handshakeSize))
}

// asServed is the handshake as the server understands it: a Keeper does not look at the session
// and the last zxid that the client names, and does not say whether it is read-only.
func (c *config) asServed(h proto.ConnectRequest) proto.ConnectRequest {
	if c.keeper != 0 {
		return proto.ConnectRequest{Timeout: h.Timeout}
	}
	return h
}

// keeperPaths are a Keeper's own nodes below /keeper, and what they hold. The address is filled in later.
var keeperPaths = map[string]string{
	"/keeper/api_version":   "2",        // lists with filters, reads of several nodes
	"/keeper/feature_flags": "\xff\x80", // a bit for each, the highest first; the eighth is persistent watches, the ninth create2
	"/keeper/config":        "",
}

// keeperRefuses reports whether a Keeper refuses a create that ZooKeeper would carry out.
func (x *txn) keeperRefuses(path string, mode Mode) bool {
	age := x.tree.cfg.keeper
	if age < KeeperNew || !strings.Contains(path, "/") {
		return false
	}
	dir, _ := split(path)
	parent := x.tree.nodes[dir]
	return age == KeeperNew && mode == ModeContainer || parent != nil && parent.ttl > 0
}

// keeperForbids reports whether a request is one to change a Keeper's own nodes, or to make one below them. The newest Keepers forbid
// to check them, too.
func (c *config) keeperForbids(op Op, body proto.Record) bool {
	path := ""
	switch r := body.(type) {
	case *proto.CreateRequest:
		if path = r.Path; path == "/keeper" && Mode(r.Flags).Sequential() {
			return false
		}
	case *proto.VersionRequest:
		if path = r.Path; op == OpCheck && c.keeper < KeeperNewest {
			return false
		}
	case *proto.SetDataRequest:
		path = r.Path
	case *proto.SetACLRequest:
		path = r.Path
	}
	return c.keeper > KeeperOld && (path == "/keeper" || below(path, "/keeper"))
}

// shownNumber is the number of a sequential node. New Keepers count with 64 bits.
func (c *config) shownNumber(count int32) int64 {
	if c.keeper >= KeeperNew {
		return int64(uint32(count))
	}
	return int64(count)
}

// keeperContainer is the ephemeralOwner of a container, as clients of the newest Keepers see it.
const keeperContainer = math.MinInt64

// keeperConfig fills in a Keeper's configuration, now that the address is known. s.mu is held.
func (s *Server) keeperConfig() {
	if s.cfg.keeper <= KeeperOld {
		return
	}
	s.tree.nodes["/keeper/config"].data = []byte(keeperLine(1, s.addr))
}

func keeperLine(number int, addr string) string {
	return fmt.Sprintf("server.%d=%s;participant;1", number, addr)
}

// eventPath is the path in the event that a recursive watch of the path watched gets.
func (c *config) eventPath(e event, watched string) string {
	if c.keeper != 0 {
		return watched
	}
	return e.path
}
