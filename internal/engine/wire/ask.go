package wire

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

// Request is one request. Only Parse is required. The functions are called on the connection's
// goroutine and must not block.
type Request[T any] struct {
	Op      proto.Op
	Frame   []byte // begun by [conn.Begin]
	Parse   func(*proto.Decoder) T
	Written func()         // called when the request has been written
	Done    func(T, error) // called when the request is answered, even if its caller waits no longer
	Last    bool           // see [conn.Request]
}

// WithStat is a result and its stat, as one value.
type WithStat[T any] struct {
	Value T
	Stat  *zk.Stat
}

// None is the result of a request whose answer is empty.
type None struct{}

func parseNone(*proto.Decoder) None { return None{} }

// containerOwner is the ephemeralOwner of a container. ZooKeeper does not show it, ClickHouse
// Keepers since the autumn of 2026 do.
const containerOwner = math.MinInt64

// ParseStat reads a stat. A container has no owner.
func ParseStat(d *proto.Decoder) *zk.Stat {
	var s proto.Stat
	s.Decode(d)
	if s.EphemeralOwner == containerOwner {
		s.EphemeralOwner = 0
	}
	return (*zk.Stat)(&s)
}

// IsTTL reports whether an ephemeralOwner marks a node with a TTL. Sessions have no such id on
// servers with TTL nodes, whose number is at most 254: see ZooKeeper's EphemeralType.
func IsTTL(owner int64) bool { return uint64(owner)>>56 == 0xff }

func readFrame(path string, watch bool) []byte {
	r := proto.ReadRequest{Path: path, Watch: watch}
	return r.Append(conn.Begin(5 + len(path)))
}

// AskGet reads a node's data, and sets a standard watch if watch is true.
func AskGet(path string, watch bool) Request[WithStat[[]byte]] {
	return Request[WithStat[[]byte]]{Op: proto.OpGetData, Frame: readFrame(path, watch), Parse: parseData}
}

func parseData(d *proto.Decoder) WithStat[[]byte] { return WithStat[[]byte]{d.Bytes(), ParseStat(d)} }

// AskChildren reads the names of a node's children, and sets a standard watch if watch is true.
func AskChildren(path string, watch bool) Request[WithStat[[]string]] {
	return Request[WithStat[[]string]]{Op: proto.OpGetChildren2, Frame: readFrame(path, watch), Parse: func(d *proto.Decoder) WithStat[[]string] {
		return WithStat[[]string]{d.Strings(), ParseStat(d)}
	}}
}

// AskExists reads a node's stat, and sets a standard watch if watch is true.
func AskExists(path string, watch bool) Request[*zk.Stat] {
	return Request[*zk.Stat]{Op: proto.OpExists, Frame: readFrame(path, watch), Parse: ParseStat}
}

// sets reports whether a read that has ended with err has set the watch that it was to set.
func sets(op proto.Op, err error) bool {
	return err == nil || op == proto.OpExists && errors.Is(err, zk.ErrNoNode)
}

// AskMulti sends several operations in one request: writes as a transaction with proto.OpMulti, or
// independent reads with proto.OpMultiRead.
func AskMulti(op proto.Op, ops []proto.MultiOp) Request[[]proto.MultiResult] {
	r := proto.MultiRequest{Ops: ops}
	return Request[[]proto.MultiResult]{Op: op, Frame: r.Append(conn.Begin(64 * len(ops))), Parse: parseMulti}
}

func parseMulti(d *proto.Decoder) []proto.MultiResult {
	var r proto.MultiResponse
	r.Decode(d)
	return r.Results
}

// AskNothing is a write that changes nothing. It needs no permission, because a refusal is
// committed as well.
func AskNothing() Request[None] {
	check := proto.MultiRequest{Ops: []proto.MultiOp{{Op: proto.OpCheck, Body: &proto.VersionRequest{Path: "/", Version: -1}}}}
	return Request[None]{Op: proto.OpMulti, Frame: check.Append(conn.Begin(64)), Parse: parseNone}
}

// AskSet sets a node's data if they have the given version. Version -1 matches every version.
func AskSet(path string, data []byte, version int32) Request[*zk.Stat] {
	r := proto.SetDataRequest{Path: path, Data: data, Version: version}
	return Request[*zk.Stat]{Op: proto.OpSetData, Frame: r.Append(conn.Begin(12 + len(path) + len(data))), Parse: ParseStat}
}

// AskDelete deletes a node if its data have the given version. Version -1 matches every version.
func AskDelete(path string, version int32) Request[None] {
	r := proto.VersionRequest{Path: path, Version: version}
	return Request[None]{Op: proto.OpDelete, Frame: r.Append(conn.Begin(8 + len(path))), Parse: parseNone}
}

// AskReconfig changes the members of the ensemble. The answer is the new configuration, and the
// stat of its node.
func AskReconfig(change *proto.ReconfigRequest) Request[WithStat[[]byte]] {
	return Request[WithStat[[]byte]]{Op: proto.OpReconfig, Frame: change.Append(conn.Begin(256)), Parse: parseData}
}

// AskAbout sends a request that consists of a path.
func AskAbout[T any](op proto.Op, path string, parse func(*proto.Decoder) T) Request[T] {
	r := proto.PathRequest{Path: path}
	return Request[T]{Op: op, Frame: r.Append(conn.Begin(4 + len(path))), Parse: parse}
}

// AskSync asks the server to catch up with the leader. A deposed leader may answer it alone.
func AskSync(path string) Request[string] {
	return AskAbout(proto.OpSync, path, (*proto.Decoder).String)
}

// AskAuth presents the credentials cred of a scheme.
func AskAuth(scheme string, cred []byte) Request[None] {
	r := proto.AuthRequest{Scheme: scheme, Cred: cred}
	return Request[None]{Op: proto.OpAuth, Frame: r.Append(conn.Begin(64)), Parse: parseNone}
}

// ProtoACL converts an ACL to its wire format.
func ProtoACL(acl []zk.ACL) []proto.ACL {
	list := make([]proto.ACL, len(acl))
	for i, a := range acl {
		list[i] = proto.ACL(a)
	}
	return list
}

// MultiFailure returns the error of a transaction of n operations, and the index of the operation
// that failed, or -1. The server reports the other operations as successful, or as inconsistent
// with the failed one.
func MultiFailure(results []proto.MultiResult, n int) (int, error) {
	if len(results) != n {
		return -1, doubtful{fmt.Errorf("%w: %d results for %d operations", proto.ErrMalformed, len(results), n)}
	}
	for _, inconsistent := range []bool{false, true} {
		for i, r := range results {
			if r.Op == proto.OpError && r.Code != proto.OK && (inconsistent || r.Code != proto.RuntimeInconsistency) {
				return i, conn.CodeError(r.Code)
			}
		}
	}
	return -1, nil
}

// ReadFailure returns the error of one of several reads in a request, or nil.
func ReadFailure(r proto.MultiResult, asked proto.Op) error {
	switch {
	case r.Op == asked:
		return nil
	case r.Op == proto.OpError && r.Code != proto.OK:
		return conn.CodeError(r.Code)
	}
	return fmt.Errorf("%w: a result of %v for %v", proto.ErrMalformed, r.Op, asked)
}

func askAddWatch(path string, mode Mode) Request[None] {
	r := proto.WatchRequest{Path: path, Kind: int32(mode)}
	return Request[None]{Op: proto.OpAddWatch, Frame: r.Append(conn.Begin(8 + len(path))), Parse: parseNone}
}

func askRemoveWatch(path string) Request[None] {
	r := proto.WatchRequest{Path: path, Kind: proto.WatcherAny}
	return Request[None]{Op: proto.OpRemoveWatches, Frame: r.Append(conn.Begin(8 + len(path))), Parse: parseNone}
}

// Mode is the set of nodes that a watch covers.
type Mode int32

// The modes of a watch.
const (
	Node Mode = 0 // a node and the list of its children
	Tree Mode = 1 // a node and all nodes below it; no events about lists
)

// WatchKind is a set of kinds of watches that fire once. The kind decides which events fire the
// watch. A node can have one watch of each kind.
type WatchKind uint8

// The kinds of watches.
const (
	WatchData     WatchKind = 1 << iota // set by reading data, and by an exists
	WatchChildren                       // set by reading the list of children

	anyKind = WatchData | WatchChildren
)
