package zkconn_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/zkconn"
	"github.com/gocurator/curator/zktest"
)

// api are the methods of go-zookeeper's Conn that the table below calls.
type api interface {
	AddAuth(scheme string, auth []byte) error
	Children(path string) ([]string, *zk.Stat, error)
	ChildrenW(path string) ([]string, *zk.Stat, <-chan zk.Event, error)
	Close()
	Create(path string, data []byte, flags int32, acl []zk.ACL) (string, error)
	CreateContainer(path string, data []byte, flag int32, acl []zk.ACL) (string, error)
	CreateProtectedEphemeralSequential(path string, data []byte, acl []zk.ACL) (string, error)
	CreateTTL(path string, data []byte, flag int32, acl []zk.ACL, ttl time.Duration) (string, error)
	Delete(path string, version int32) error
	Exists(path string) (bool, *zk.Stat, error)
	ExistsW(path string) (bool, *zk.Stat, <-chan zk.Event, error)
	Get(path string) ([]byte, *zk.Stat, error)
	GetACL(path string) ([]zk.ACL, *zk.Stat, error)
	GetW(path string) ([]byte, *zk.Stat, <-chan zk.Event, error)
	IncrementalReconfig(joining, leaving []string, version int64) (*zk.Stat, error)
	Multi(ops ...interface{}) ([]zk.MultiResponse, error)
	Reconfig(members []string, version int64) (*zk.Stat, error)
	Server() string
	SessionID() int64
	Set(path string, data []byte, version int32) (*zk.Stat, error)
	SetACL(path string, acl []zk.ACL, version int32) (*zk.Stat, error)
	State() zk.State
	Sync(path string) (string, error)
}

var (
	_ api = (*zk.Conn)(nil)
	_ api = (*zkconn.Conn)(nil)

	world = zk.WorldACL(zk.PermAll)
)

// quiet is a logger that discards.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// transcript notes what calls have returned.
type transcript struct {
	conn  api
	lines []string
}

// note returns a function that writes a call's results down: what both clients must return. Times
// and transaction numbers differ.
func (tr *transcript) note(call string) func(results ...any) {
	return func(results ...any) { tr.lines = append(tr.lines, noted(call, results)) }
}

func noted(call string, results []any) string {
	var line strings.Builder
	fmt.Fprintf(&line, "%s:", call)
	for _, r := range results {
		switch r := r.(type) {
		case *zk.Stat:
			if r == nil {
				line.WriteString(" no stat")
			} else {
				fmt.Fprintf(&line, " stat(v%d c%d a%d len %d children %d ephemeral %v)",
					r.Version, r.Cversion, r.Aversion, r.DataLength, r.NumChildren, r.EphemeralOwner != 0)
			}
		case <-chan zk.Event:
			fmt.Fprintf(&line, " channel %v", r != nil)
		case error:
			fmt.Fprintf(&line, " error %s", identity(r))
		case []string:
			slices.Sort(r)
			fmt.Fprintf(&line, " %#v", r)
		case []zk.MultiResponse:
			line.WriteString(" [")
			for _, one := range r {
				fmt.Fprintf(&line, "(%q %v %s)", one.String, one.Stat != nil, identity(one.Error))
			}
			line.WriteString("]")
		default:
			fmt.Fprintf(&line, " %#v", r)
		}
	}
	return line.String()
}

// identity says whether an error can be compared with ==.
func identity(err error) string {
	switch err {
	case nil, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals, zk.ErrNoAuth,
		zk.ErrInvalidACL, zk.ErrInvalidPath, zk.ErrConnectionClosed, zk.ErrAuthFailed, zk.ErrBadArguments, zk.ErrReconfigDisabled:
		return fmt.Sprintf("== %v", err)
	}
	if errors.Is(err, zk.ErrInvalidFlags) {
		return "invalid flags"
	}
	return "another"
}

func (tr *transcript) event(what string, ch <-chan zk.Event) {
	select {
	case e, open := <-ch:
		_, more := <-ch
		tr.note(what)(e.Type.String(), e.State.String(), e.Path, e.Err, open, more)
	case <-time.After(30 * time.Second):
		tr.note(what)("nothing has come")
	}
}

// record calls every method with valid and invalid arguments.
func (tr *transcript) record() {
	c := tr.conn
	create := func(path string, data []byte, flags int32, acl []zk.ACL) {
		tr.note("create " + path)(c.Create(path, data, flags, acl))
	}
	get := func(path string) { tr.note("get " + path)(c.Get(path)) }
	create("/a", []byte("one"), zk.FlagPersistent, world)
	create("/a", nil, zk.FlagPersistent, world)
	create("/b/c", nil, zk.FlagPersistent, world)
	create("a", nil, zk.FlagPersistent, world)
	create("", nil, zk.FlagPersistent, world)
	create("/a/", nil, zk.FlagPersistent, world)
	create("/a//b", nil, zk.FlagPersistent, world)
	create("bad", nil, zk.FlagPersistent, nil)
	create("/", nil, zk.FlagPersistent, world)
	create("/", nil, zk.FlagSequence, world)
	create("/a/", nil, zk.FlagSequence, world)
	create("/a/s-", nil, zk.FlagSequence, world)
	create("/a/e", []byte{}, zk.FlagEphemeral, world)
	create("/a/e/c", nil, zk.FlagPersistent, world)
	create("/a/es-", nil, zk.FlagEphemeralSequential, world)
	create("/a/none", nil, zk.FlagPersistent, nil)
	create("/a/none", nil, zk.FlagPersistent, []zk.ACL{})
	create("/a/scheme", nil, zk.FlagPersistent, []zk.ACL{{Perms: zk.PermAll, Scheme: "unknown", ID: "anyone"}})
	create("/a/container", nil, zk.FlagContainer, world)
	create("/a/ttl", nil, zk.FlagTTL, world)
	get("/a")
	get("/a/s-0000000001")
	get("/a/e")
	get("/missing")
	get("bad")
	for _, flag := range []int32{zk.FlagContainer, zk.FlagPersistent, zk.FlagTTL} {
		tr.note("create container")(c.CreateContainer(fmt.Sprintf("/container-%d", flag), nil, flag, world))
	}
	for _, flag := range []int32{zk.FlagTTL, zk.FlagPersistentSequentialWithTTL, zk.FlagContainer} {
		tr.note("create ttl")(c.CreateTTL(fmt.Sprintf("/ttl-%d", flag), nil, flag, world, time.Hour))
	}
	protected, err := c.CreateProtectedEphemeralSequential("/a/p-", nil, world)
	tr.note("create protected")(strings.HasPrefix(protected, "/a/_c_"), strings.HasSuffix(protected, "-p-0000000008"), err)
	_, err = c.CreateProtectedEphemeralSequential("/missing/p-", nil, world)
	tr.note("create protected")(err)
	_, err = c.CreateProtectedEphemeralSequential("/a/p-", nil, nil)
	tr.note("create protected")(err)
	tr.note("delete protected")(c.Delete(protected, -1))

	for _, path := range []string{"/a", "/a/e", "/missing", "bad"} {
		tr.note("children")(c.Children(path))
		tr.note("exists")(c.Exists(path))
		tr.note("getACL")(c.GetACL(path))
		tr.note("sync")(c.Sync(path))
	}
	for _, version := range []int32{0, 5, -1} {
		tr.note("set")(c.Set("/a", []byte("two"), version))
	}
	tr.note("set")(c.Set("/missing", nil, -1))
	tr.note("set")(c.Set("bad", nil, -1))
	tr.note("set nothing")(c.Set("/a", nil, -1))
	get("/a")
	tr.note("delete")(c.Delete("/a", -1))
	tr.note("delete")(c.Delete("/a/s-0000000001", 7))
	tr.note("delete")(c.Delete("/a/s-0000000001", 0))
	tr.note("delete")(c.Delete("/missing", -1))
	tr.note("delete")(c.Delete("bad", -1))

	tr.multi()
	tr.acls()
	tr.watches()
	tr.reconfig()
	tr.note("state")(c.State().String(), c.SessionID() != 0, c.Server() != "")
	c.Close()
	c.Close()
	get("/a")
	create("/closed", nil, 0, world)
	tr.note("exists")(c.Exists("/a"))
	tr.note("exists")(c.ExistsW("/a"))
	tr.note("children")(c.Children("/a"))
	tr.note("set")(c.Set("/a", nil, -1))
	tr.note("delete")(c.Delete("/a", -1))
}

func (tr *transcript) multi() {
	call := func(ops ...any) { tr.note("multi")(tr.conn.Multi(ops...)) }
	call(&zk.CreateRequest{Path: "/m", Data: []byte("x"), Acl: world},
		&zk.CreateRequest{Path: "/m/s-", Acl: world, Flags: zk.FlagSequence},
		&zk.SetDataRequest{Path: "/m", Data: []byte("y"), Version: 0},
		&zk.CheckVersionRequest{Path: "/m", Version: 1},
		&zk.DeleteRequest{Path: "/m/s-0000000000", Version: -1})
	call(&zk.CreateRequest{Path: "/m/1", Acl: world}, &zk.DeleteRequest{Path: "/missing", Version: -1}, &zk.CreateRequest{Path: "/m/2", Acl: world})
	call(&zk.CreateRequest{Path: "/m/1"})
	call(&zk.CheckVersionRequest{Path: "/m", Version: 0})
	call()
	call(&zk.CreateRequest{Path: "/m/", Acl: world, Flags: zk.FlagSequence})
	call(&zk.CheckVersionRequest{Path: "/missing", Version: -1}, &zk.DeleteRequest{Path: "/a//b", Version: -1})
	call(&zk.CreateTTLRequest{Path: "/m/ttl", Acl: world, Flags: zk.FlagTTL, Ttl: 1000})
	call(&zk.CreateRequest{Path: "/m/flags", Acl: world, Flags: 9})
}

func (tr *transcript) acls() {
	c := tr.conn
	tr.note("setACL")(c.SetACL("/m", world, 3))
	tr.note("setACL")(c.SetACL("/m", nil, -1))
	tr.note("setACL")(c.SetACL("/m", zk.DigestACL(zk.PermAll, "user", "password"), 0))
	tr.note("get")(c.Get("/m"))
	tr.note("exists")(c.Exists("/m"))
	tr.note("getW")(c.GetW("/m"))
	tr.note("auth")(c.AddAuth("digest", []byte("user:password")))
	tr.note("get")(c.Get("/m"))
	tr.note("setACL")(c.SetACL("/m", zk.AuthACL(zk.PermAll), -1))
	tr.note("getACL")(c.GetACL("/m"))
}

func (tr *transcript) getW(path string) <-chan zk.Event {
	data, stat, ch, err := tr.conn.GetW(path)
	tr.note("getW "+path)(data, stat, ch, err)
	return ch
}

func (tr *transcript) existsW(path string) <-chan zk.Event {
	found, stat, ch, err := tr.conn.ExistsW(path)
	tr.note("existsW "+path)(found, stat, ch, err)
	return ch
}

func (tr *transcript) childrenW(path string) <-chan zk.Event {
	children, stat, ch, err := tr.conn.ChildrenW(path)
	tr.note("childrenW "+path)(children, stat, ch, err)
	return ch
}

func (tr *transcript) watches() {
	c := tr.conn
	tr.note("create")(c.Create("/w", nil, 0, world))
	tr.getW("/missing")
	tr.childrenW("/missing")
	tr.getW("bad")

	data, there := tr.getW("/w"), tr.existsW("/w")
	tr.note("set")(c.Set("/w", []byte("x"), -1))
	tr.event("data", data)
	tr.event("exists", there)

	list, gone := tr.childrenW("/w"), tr.existsW("/w/c")
	tr.note("create")(c.Create("/w/c", nil, 0, world))
	tr.event("children", list)
	tr.event("created", gone)
	tr.note("delete")(c.Delete("/w/c", -1))

	data, list, more := tr.getW("/w"), tr.childrenW("/w"), tr.getW("/w")
	tr.note("delete")(c.Delete("/w", -1))
	tr.event("deleted", data)
	tr.event("deleted", list)
	tr.event("deleted", more)
}

func (tr *transcript) reconfig() {
	for _, version := range []int64{-1, 1 << 32} {
		tr.note("reconfig")(tr.conn.Reconfig([]string{"server.1=a:2888:3888;2181\n", "server.2=b:2888:3888:observer;2181"}, version))
		tr.note("incremental reconfig")(tr.conn.IncrementalReconfig([]string{"server.3=c:2888:3888;2181"}, []string{"1", "2"}, version))
		tr.note("incremental reconfig")(tr.conn.IncrementalReconfig(nil, []string{"1"}, version))
		tr.note("incremental reconfig")(tr.conn.IncrementalReconfig(nil, nil, version))
		tr.note("reconfig")(tr.conn.Reconfig(nil, version))
	}
}

// sent is a connection that records the bytes written to it.
type sent struct {
	net.Conn
	mu    sync.Mutex
	bytes []byte
}

func (s *sent) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes = append(s.bytes, b...)
	return s.Conn.Write(b)
}

// bodies returns the bodies of all requests of one kind.
func (s *sent) bodies(op string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rest := s.bytes; len(rest) > 0; {
		n := 4 + binary.BigEndian.Uint32(rest)
		if frame := rest[4:n]; proto.Op(binary.BigEndian.Uint32(frame[4:])).String() == op {
			list = append(list, string(frame[8:]))
		}
		rest = rest[n:]
	}
	return list
}

// A server of zktest does not reconfigure. So the requests are compared byte by byte, and the test
// writes the reply.
func TestReconfigSendsWhatGoZookeeperSends(t *testing.T) {
	record := func(connect connector) (lines, bodies []string) {
		server := zktest.NewServer(t)
		server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
			var header proto.ReplyHeader
			d := proto.NewDecoder(answer[4:])
			header.Decode(&d)
			header.Code = 0
			body := proto.DataResponse{Data: []byte("version=1"), Stat: proto.Stat{Version: 7}}
			answer = body.Append(header.Append(make([]byte, 4)))
			binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
			return answer
		}, zktest.OnOp("reconfig"))
		var s sent
		conn, _ := connect(t, server.Servers(), func(network, address string, timeout time.Duration) (net.Conn, error) {
			var err error
			s.Conn, err = net.DialTimeout(network, address, timeout)
			return &s, err
		})
		tr := &transcript{conn: conn}
		tr.reconfig()
		return tr.lines, s.bodies("reconfig")
	}
	wantLines, wantBodies := record(theirs)
	lines, bodies := record(ours)
	require.Len(t, wantBodies, 10)
	require.Equal(t, wantBodies, bodies)
	require.Contains(t, wantLines[0], "stat(v7 ")
	require.Equal(t, wantLines, lines)
}

// Each method is called with the same arguments on go-zookeeper's Conn and on this package's, each
// on a separate server.
func TestOperationsReturnWhatGoZookeepersReturn(t *testing.T) {
	for name, opts := range map[string][]zktest.Option{"plain": nil, "TTL": {zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"})}} {
		t.Run(name, func(t *testing.T) {
			record := func(connect connector) []string {
				conn, _ := connect(t, zktest.NewServer(t, opts...).Servers(), net.DialTimeout)
				tr := &transcript{conn: conn}
				tr.record()
				return tr.lines
			}
			want, got := record(theirs), record(ours)
			require.Greater(t, len(want), 100)
			for i := range want {
				assert.Equal(t, want[i], got[i])
			}
		})
	}
}

// go-zookeeper has errors without a value for these, or asks the server.
func TestBadArgumentsAreRefusedEarly(t *testing.T) {
	conn, _, err := zkconn.Connect([]string{"127.0.0.1:1"}, 10*time.Second, zkconn.WithLogger(nil))
	require.NoError(t, err)
	defer conn.Close()
	require.ErrorIs(t, testbed.Err(conn.Create("/a", nil, 9, world)), zkconn.ErrInvalidFlags)
	require.ErrorIs(t, testbed.Err(conn.CreateContainer("/a", nil, 9, world)), zkconn.ErrInvalidFlags)
	require.ErrorIs(t, testbed.Err(conn.CreateTTL("/a", nil, 9, world, time.Hour)), zkconn.ErrInvalidFlags)
	require.ErrorIs(t, testbed.Err(conn.CreateTTL("/a", nil, zk.FlagTTL, world, 0)), zkconn.ErrBadArguments)
	require.ErrorIs(t, testbed.Err(conn.CreateTTL("/a", nil, zk.FlagTTL, nil, -time.Second)), zkconn.ErrBadArguments)
	require.ErrorIs(t, testbed.Err(conn.CreateTTL("/a", nil, zk.FlagTTL, nil, time.Second)), zkconn.ErrInvalidACL)
	require.EqualError(t, testbed.Err(conn.Multi("text")), "unknown operation type string")
	require.ErrorIs(t, testbed.Err(conn.Multi((*zk.CreateRequest)(nil))), zkconn.ErrBadArguments)
	require.ErrorIs(t, conn.AddAuth("", nil), zkconn.ErrBadArguments)
}

// TestAContainerOfAKeeperHasNoOwner has go-zookeeper create it: this package asks no Keeper for
// one.
func TestAContainerOfAKeeperHasNoOwner(t *testing.T) {
	servers := zktest.NewServer(t, zktest.LikeKeeper("newest")).Servers()
	creator, _ := theirs(t, servers, net.DialTimeout)
	require.NoError(t, testbed.Err(creator.CreateContainer("/a", nil, zk.FlagContainer, world)))
	_, shown, err := creator.Exists("/a")
	require.NoError(t, err)
	require.NotZero(t, shown.EphemeralOwner)
	conn, _ := ours(t, servers, net.DialTimeout)
	_, stat, err := conn.Exists("/a")
	require.NoError(t, err)
	require.Zero(t, stat.EphemeralOwner)
}

func TestReconfigTakesAServerAwayAndBringsItBack(t *testing.T) {
	e := ensemble.New(t, ensemble.WithEnv("ZOO_CFG_EXTRA", "reconfigEnabled=true skipACL=yes"))
	conn, _ := ours(t, e.Servers()[:2], net.DialTimeout)
	// A server that led loses its clients, and a new one is not in step at once.
	members := func(reconfig func() (*zk.Stat, error)) (list []string) {
		testbed.Eventually(t, func() bool {
			_, err := reconfig()
			return err == nil
		}, "a new configuration")
		testbed.Eventually(t, func() bool {
			data, _, err := conn.Get("/zookeeper/config")
			list = strings.Split(string(data), "\n")
			return err == nil
		}, "the configuration")
		return list[:len(list)-1] // without the version
	}
	all := members(func() (*zk.Stat, error) { return nil, nil })
	require.Len(t, all, 3)
	require.Equal(t, zkconn.ErrBadVersion, testbed.Err(conn.Reconfig(all, 1)))
	require.Equal(t, zkconn.ErrBadArguments, testbed.Err(conn.Reconfig(nil, -1)))
	require.Equal(t, all[:2], members(func() (*zk.Stat, error) { return conn.IncrementalReconfig(nil, []string{"3"}, -1) }))
	require.Equal(t, all, members(func() (*zk.Stat, error) { return conn.IncrementalReconfig(all[2:], nil, -1) }))
	require.Equal(t, all[:2], members(func() (*zk.Stat, error) { return conn.Reconfig(all[:2], -1) }))
}
