package zktest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/zktest"
)

// TestSameAsARealServer sends the same random operations to this package's server and to a real
// one, and compares every answer, stat and watch event. The real one stands alone, leads an
// ensemble, or follows. The operations are the same in every run, so that a failure is due to a
// change of the code. To test with other operations:
//
//	go test ./zktest -run SameAsARealServer -rapid.seed $RANDOM -rapid.checks 1000
func TestSameAsARealServer(t *testing.T) {
	repeatable(t)
	// No clean-up of containers in the middle of a run: it is a transaction.
	flags := ensemble.WithEnv("JVMFLAGS", "-Dzookeeper.extendedTypesEnabled=true -Dznode.container.checkIntervalMs=86400000")
	t.Run("alone", func(t *testing.T) {
		address := ensemble.New(t, ensemble.WithServers(1), flags).Servers()[0]
		compare(t, address, imageVersion(t, address), false)
	})
	checks := flag.Lookup("rapid.checks").Value
	if checks.String() == "100" { // the default
		defer func() { require.NoError(t, checks.Set("100")) }()
		require.NoError(t, checks.Set("30")) // the rules are the same, and a quorum takes its time
	}
	for role, ahead := range map[string]int{"leader": 0, "follower": 1} {
		t.Run(role, func(t *testing.T) {
			if role == "leader" {
				// The leader also answers for a follower, which each push compares.
				testlevel.Need(t, testlevel.Nightly)
			}
			e := ensemble.New(t, flags)
			leader, err := e.Leader(t.Context())
			require.NoError(t, err)
			address := e.Servers()[(leader+ahead)%e.Size()]
			remind(t, address)
			// A follower that has hung up might not resume the session at once.
			compare(t, address, imageVersion(t, address), true)
		})
	}
}

// repeatable makes rapid draw the same operations in every run, unless a seed is given.
func repeatable(t *testing.T) {
	t.Helper()
	if seed := flag.Lookup("rapid.seed").Value; seed.String() == "0" {
		require.NoError(t, seed.Set("1"))
	}
}

// imageVersion asks a server for its version, and returns the version of this package's server to
// compare with it.
func imageVersion(t *testing.T, address string) string {
	t.Helper()
	text := wordAt(t, address, "srvr")
	for _, v := range []string{"3.8.0", "3.9.6"} {
		if strings.HasPrefix(text, "Zookeeper version: "+v[:len("3.8.")]) {
			return v
		}
	}
	t.Fatalf("no version of zktest for: %s", text)
	return ""
}

// compare compares our server, of this version, with one at this address. Both are new.
func compare(t *testing.T, address string, version string, tame bool) {
	ours := zktest.NewServer(t, zktest.WithVersion(version), zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "86400000"}))
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		root := fmt.Sprintf("/run%d", run)
		a := newSubject(t, "real", address, root)
		defer a.close()
		b := newSubject(t, "ours", ours.Addr(), root)
		defer b.close()
		d := drawing{t, root, version, tame}
		for i := range rapid.IntRange(1, 40).Draw(t, "operations") {
			step := d.step()
			want, got := a.do(step), b.do(step)
			if want != got {
				t.Fatalf("step %d, %s:\nreal: %s\nours: %s", i, step, want, got)
			}
			t.Logf("%s = %s", step, want)
		}
	})
}

// step is something to do in one of a subject's sessions.
type step struct {
	session   int
	requests  []request // sent at once
	reconnect bool      // after the requests, the session is resumed on another connection
}

func (s step) String() string {
	var names []string
	for _, r := range s.requests {
		names = append(names, r.name)
	}
	if s.reconnect {
		names = append(names, "reconnect")
	}
	return fmt.Sprintf("session %d: %s", s.session, strings.Join(names, " + "))
}

// request is the same for both servers, except for what depends on their zxids.
type request struct {
	name     string
	odd      bool // no client sends it
	differs  bool // the code is not compared
	op       int32
	body     buffer
	relative func(s *subject) buffer // instead of body
	print    func(s *subject, r *cursor) string
}

const sessionCount = 3

// drawing draws operations. There are few names, so that they meet each other.
type drawing struct {
	t    *rapid.T
	root string

	release string
	tame    bool // nothing after which a server hangs up
}

func pick[E any](d drawing, what string, from ...E) E {
	return rapid.SampledFrom(from).Draw(d.t, what)
}

// oneIn is true once in n times.
func (d drawing) oneIn(n int, what string) bool {
	return rapid.IntRange(1, n).Draw(d.t, what) == n
}

func (d drawing) step() step {
	s := step{session: rapid.IntRange(0, sessionCount-1).Draw(d.t, "session")}
	switch {
	case d.oneIn(25, "reconnect"):
		s.reconnect = true
	case d.oneIn(8, "pipeline"):
		for range rapid.IntRange(2, 5).Draw(d.t, "requests") {
			// A real server checks pipelined requests by the old access lists until a setACL has
			// passed the whole pipeline. And auth and unknown requests overtake earlier ones.
			if r := d.request(); r.op != opSetACL && r.op != opClose && r.op != opAuth && !r.odd {
				s.requests = append(s.requests, r)
			}
		}
	default:
		r := d.request()
		if d.tame && (r.odd || r.op == opAuth) {
			break
		}
		if len(r.body) > 0 && !d.tame && d.oneIn(40, "truncated") {
			r.body = r.body[:rapid.IntRange(0, len(r.body)-1).Draw(d.t, "length")]
			r.name += fmt.Sprintf(" cut to %d bytes", len(r.body))
			r.print = printNothing
		}
		s.requests = []request{r}
	}
	return s
}

func (d drawing) path() string {
	if d.oneIn(30, "odd path") {
		odd := []string{"", "a", "/", "//", d.root + "/", d.root + "//x", d.root + "/.", d.root + "/../x", d.root + "/\x01", d.root + "/\x00x",
			d.root + "/\u00e9", d.root + "/\u0085", d.root + "/\ue000", "/zookeeper", "/zookeeper/quota", "/zookeeper/x"}
		if !d.tame {
			odd = append(odd, "/zookeeper/config") // an ensemble's names its servers
		}
		return pick(d, "path", odd...)
	}
	return d.root + pick(d, "path", "", "/a", "/b", "/a/b", "/a/c", "/a/b/c", "/e", "/q-", "/q-0000000001", "/t", "/k")
}

func (d drawing) acl(b *buffer) string {
	one := func(perms int32, scheme, id string) string {
		b.int(1).int(perms).text(scheme).text(id)
		return fmt.Sprintf("%d:%s:%s", perms, scheme, id)
	}
	switch rapid.IntRange(0, 14).Draw(d.t, "acl") {
	case 0:
		none := pick[int32](d, "no acl", 0, -1)
		if d.tame && d.release == "3.9.6" {
			// a leader takes no zxid for a multi with -1, and the ensemble stands still from then
			// on
			none = 0
		}
		b.int(none)
		return fmt.Sprintf("acl %d", none)
	case 1:
		return one(31, "auth", pick(d, "id", "", "ignored"))
	case 2:
		b.int(2).int(1).text("world").text("anyone").int(31).text("digest").text("user:hash")
		return "read-only"
	case 3:
		return one(31, "world", "nobody")
	case 4:
		return one(31, pick(d, "scheme", "nothing", "", "sasl", "super"), "x")
	case 5:
		b.int(3).int(31).text("world").text("anyone").int(31).text("world").text("anyone").int(1).text("ip").text("1.2.3.4")
		return "twice"
	case 6:
		return one(31, "digest", pick(d, "id", "x:y", "x", "", ":", "x:", ":y", "x:y:", "x:y:z", "x::"))
	case 7:
		return one(31, "ip", pick(d, "id", "0.0.0.0/0", "1.2.3.4", "1.2.3.4/8", "1.2.3", "1.2.3.256", "1.2.3.4/33", "1.2.3.4/x", "1.2.3.4/", "1.2.3.4/8/9", "", "::1", "1::/129", "::1.2.3.4"))
	case 8:
		return one(pick[int32](d, "permissions", 0, 1, 2, 4, 8, 16, 30, 29, 27, 23, 15, 64, -1), "world", "anyone")
	}
	return one(31, "world", "anyone")
}

func (d drawing) data() []byte { return pick(d, "data", nil, []byte{}, []byte("x"), []byte("longer")) }

func (d drawing) version() int32 { return pick[int32](d, "version", -1, -1, 0, 1, 7, -2) }

// write draws a request that changes something.
func (d drawing) write(inMulti bool) (r request) {
	ops := []int32{opCreate, opCreate, opCreate2, opDelete, opDelete, opSetData, opCreateContainer, opCreateTTL}
	if inMulti {
		ops = append(ops, opCheck, opCheck)
	} else {
		ops = append(ops, opSetACL)
	}
	r.op = pick(d, "write", ops...)
	switch r.op {
	case opDelete, opCheck:
		p, v := d.path(), d.version()
		r.body.text(p).int(v)
		r.name, r.print = fmt.Sprintf("op %d %q %d", r.op, p, v), printNothing
	case opSetData:
		p, data, v := d.path(), d.data(), d.version()
		r.body.text(p).bytes(data).int(v)
		r.name, r.print = fmt.Sprintf("setData %q %q %d", p, data, v), printStat
	case opSetACL:
		p := d.path()
		if p == "/" {
			p = d.root // or no node could be created there any more
		}
		r.body.text(p)
		a, v := d.acl(&r.body), d.version()
		r.body.int(v)
		r.name, r.print = fmt.Sprintf("setACL %q %s %d", p, a, v), printStat
	default:
		p, data := d.path(), d.data()
		if d.oneIn(100, "beyond 16 bits") {
			p = d.root + "/\U0001F600" // only here, for a real server's echo of it is not UTF-8
		}
		r.body.text(p).bytes(data)
		a := d.acl(&r.body)
		flags := pick[int32](d, "flags", 0, 0, 1, 2, 3, 3)
		switch r.op {
		case opCreateContainer:
			flags = 4
		case opCreateTTL:
			flags = pick[int32](d, "flags", 5, 6)
		}
		if d.oneIn(20, "odd flags") {
			flags = rapid.Int32Range(-1, 8).Draw(d.t, "flags")
		}
		r.body.int(flags)
		r.name = fmt.Sprintf("create (op %d) %q %q %s flags %d", r.op, p, data, a, flags)
		if r.op == opCreateTTL {
			ttl := pick[int64](d, "ttl", 3_600_000, 3_600_000, 3_600_000, 0, -1, 0x00FFFFFFFF, 0x0100000000, 0xFFFFFFFFFF, 0x10000000000)
			if flags != 5 && flags != 6 {
				ttl = max(ttl, 0) // or a real server dies of it
			}
			r.body.long(ttl)
			r.name += fmt.Sprintf(" ttl %d", ttl)
		}
		r.print = printPathAndStat
		if r.op == opCreate {
			r.print = printPath
		}
	}
	return r
}

func (d drawing) request() (r request) {
	simple := func(name string, op int32, print func(*subject, *cursor) string) {
		p := d.path()
		r.body.text(p)
		r.name, r.op, r.print = fmt.Sprintf("%s %q", name, p), op, print
	}
	switch kind := pick(d, "kind",
		"write", "write", "write", "write", "look", "look", "look", "look", "getACL", "sync", "multi", "multi", "multiRead", "auth",
		"setWatches", "addWatch", "addWatch", "removeWatches", "checkWatches", "getEphemerals", "allChildren", "whoAmI", "reopen", "odd",
	); kind {
	case "write":
		return d.write(false)
	case "look":
		op := pick[int32](d, "look", opExists, opGetData, opGetChildren, opGetChildren2)
		simple(fmt.Sprintf("look (op %d)", op), op, map[int32]func(*subject, *cursor) string{
			opExists: printStat, opGetData: printDataAndStat, opGetChildren: printChildren, opGetChildren2: printChildrenAndStat,
		}[op])
		watch := rapid.Bool().Draw(d.t, "watch")
		r.body.bool(watch)
		r.name += fmt.Sprintf(" %v", watch)
	case "getACL":
		simple(kind, opGetACL, func(s *subject, r *cursor) string { return r.acls() + " " + s.stat(r) })
	case "sync":
		simple(kind, opSync, printPath)
	case "multi":
		return d.multi()
	case "multiRead":
		return d.multiRead()
	case "auth":
		scheme := pick(d, "scheme", "digest", "digest", "digest", "digest", "ip", "world", "auth", "nothing")
		cred := pick(d, "credentials", "user:password", "other:password", "other:pass:word", "user:", ":", "nobody", "")
		r.body.int(0).text(scheme).bytes([]byte(cred))
		r.name, r.op, r.print = fmt.Sprintf("auth %s %q", scheme, cred), opAuth, printNothing
	case "setWatches":
		return d.setWatches()
	case "addWatch":
		mode := pick[int32](d, "mode", 0, 1, 0, 1, 0, 1, 2, -1)
		simple(fmt.Sprintf("addWatch %d", mode), opAddWatch, func(_ *subject, r *cursor) string { return fmt.Sprint(r.int()) })
		r.body.int(mode)
	case "removeWatches", "checkWatches":
		op := map[string]int32{"removeWatches": opRemoveWatches, "checkWatches": opCheckWatches}[kind]
		which := pick[int32](d, "watcher kind", 1, 2, 3, 3, 4, 5, 0, 9)
		simple(fmt.Sprintf("%s %d", kind, which), op, printNothing)
		r.body.int(which)
		r.differs = kind == "checkWatches" && d.release == "3.8.0"
	case "getEphemerals":
		prefix := pick(d, "prefix", d.root, d.root+"/q", "/", "", " ", "x")
		r.body.text(prefix)
		r.name, r.op, r.print = fmt.Sprintf("getEphemerals %q", prefix), opGetEphemerals, printChildren
	case "allChildren":
		simple("getAllChildrenNumber", opAllChildren, func(_ *subject, r *cursor) string { return fmt.Sprint(r.int()) })
	case "whoAmI":
		r.name, r.op, r.print = kind, opWhoAmI, func(_ *subject, r *cursor) string { return r.who() }
	case "reopen":
		r.name, r.op, r.print = "close the session and open another", opClose, printNothing
	case "odd":
		op := pick[int32](d, "odd", opReconfig, opDeleteContainer, 10, 23, 99, 108, 1000, -1)
		simple(fmt.Sprintf("op %d", op), op, printNothing)
		r.body.int(-1)
		r.odd = true
		if op == opReconfig {
			r.body = nil
			r.body.text("").text("").text("").long(-1)
		}
	}
	return r
}

func (d drawing) multi() (r request) {
	var parts []func(*subject, *cursor) string
	r.name, r.op = "multi", opMulti
	for range rapid.IntRange(0, 4).Draw(d.t, "parts") {
		part := d.write(true)
		switch part.op {
		case opCreate, opCreate2, opCreateContainer, opCreateTTL:
			part.print = nil // the result says of what kind it is
		}
		if d.oneIn(40, "odd part") {
			part.op = pick[int32](d, "odd part", opSetACL, opGetData, 77)
		}
		r.name += fmt.Sprintf(" {%d %s}", part.op, part.name)
		r.body.int(part.op).bool(false).int(-1)
		r.body = append(r.body, part.body...)
		parts = append(parts, part.print)
	}
	r.body.int(-1).bool(true).int(-1)
	r.print = func(s *subject, r *cursor) string { return s.multi(r, parts) }
	return r
}

func (d drawing) multiRead() (r request) {
	var parts []func(*subject, *cursor) string
	r.name, r.op = "multiRead", opMultiRead
	for range rapid.IntRange(0, 3).Draw(d.t, "parts") {
		op, print := int32(opGetData), printDataAndStat
		if rapid.Bool().Draw(d.t, "children") {
			op, print = opGetChildren, printChildren
		}
		if d.oneIn(30, "odd part") {
			op = pick[int32](d, "odd part", opExists, opDelete, 77)
		}
		p, watch := d.path(), rapid.Bool().Draw(d.t, "watch")
		r.name += fmt.Sprintf(" {%d %q %v}", op, p, watch)
		r.body.int(op).bool(false).int(-1).text(p).bool(watch)
		parts = append(parts, print)
	}
	r.body.int(-1).bool(true).int(-1)
	r.print = func(s *subject, r *cursor) string { return s.multi(r, parts) }
	return r
}

func (d drawing) setWatches() (r request) {
	ago := rapid.Int64Range(0, 20).Draw(d.t, "ago")
	p := []string{d.path(), d.path(), d.path()}
	r.name, r.op, r.print = fmt.Sprintf("setWatches %q of %d ago", p, ago), opSetWatches, printNothing
	two := rapid.Bool().Draw(d.t, "two")
	if two {
		r.op = opSetWatches2
		r.name += ", persistent and recursive too"
	}
	r.relative = func(s *subject) buffer {
		var b buffer
		b.long(s.zxid - ago).texts(p[0]).texts(p[1]).texts(p[2])
		if two {
			b.texts(p[0]).texts(p[1])
		}
		return b
	}
	return r
}

func printNothing(*subject, *cursor) string         { return "" }
func printPath(_ *subject, r *cursor) string        { return r.text() }
func printStat(s *subject, r *cursor) string        { return s.stat(r) }
func printPathAndStat(s *subject, r *cursor) string { return r.text() + " " + s.stat(r) }
func printDataAndStat(s *subject, r *cursor) string { return r.data() + " " + s.stat(r) }
func printChildren(_ *subject, r *cursor) string    { return fmt.Sprint(r.texts()) }
func printChildrenAndStat(s *subject, r *cursor) string {
	return fmt.Sprint(r.texts()) + " " + s.stat(r)
}

// subject is a server under test, with sessions on it.
type subject struct {
	t        *rapid.T
	address  string
	base     int64 // zxids are counted from here
	zxid     int64 // last seen
	sessions []*rawClient
	owners   map[int64]string
}

func newSubject(t *rapid.T, name, address, root string) *subject {
	s := &subject{t: t, address: address, owners: map[int64]string{0: "nobody"}}
	for range sessionCount {
		s.sessions = append(s.sessions, s.open(nil))
	}
	r, err := s.sessions[0].call(opCreate, create(root, 0))
	if err != nil || r.code != 0 {
		t.Fatalf("%s: %v, code %d", name, err, r.code)
	}
	s.base, s.zxid = r.zxid, r.zxid
	return s
}

// open starts a session, or resumes one.
func (s *subject) open(old *rawClient) *rawClient {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	c, err := dialRaw(conn, old, 20*time.Second)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	c.printZxid = s.relative
	switch {
	case old == nil:
		s.owners[c.id] = fmt.Sprintf("session %d", len(s.owners))
	case c.id != old.id:
		s.t.Fatalf("session %#x came back as %#x", old.id, c.id)
	}
	return c
}

func (s *subject) close() {
	for _, c := range s.sessions {
		_, _ = c.call(opClose, nil)
		_ = c.conn.Close()
	}
}

const (
	codeUnimplemented = -6
	codeAuthFailed    = -115
)

// awaitCut returns when a connection is cut, or a while has passed in which it is not.
func (s *subject) awaitCut(c *rawClient) {
	for end := time.Now().Add(answerTimeout); time.Now().Before(end); {
		if _, err := c.call(opPing, nil); err != nil {
			return
		}
	}
}

// do carries a step out and prints all that can be seen of it, on all sessions.
func (s *subject) do(step step) string {
	var out strings.Builder
	c := s.sessions[step.session]
	closed := false
	var frames []byte
	var xids []int32
	for _, r := range step.requests {
		closed = closed || r.op == opClose
		body := r.body
		if r.relative != nil {
			body = r.relative(s)
		}
		xid, b := c.request(r.op, body)
		frames = append(binary.BigEndian.AppendUint32(frames, uint32(len(b))), b...)
		xids = append(xids, xid)
	}
	if err := c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		s.t.Fatalf("%v", err)
	}
	if _, err := c.conn.Write(frames); err != nil {
		s.t.Fatalf("%v", err)
	}
	for i, xid := range xids {
		r, err := c.answer(xid)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			fmt.Fprintf(&out, "\n  no answer to request %d, and no end", i)
			s.resume(step.session)
			break
		}
		if err != nil {
			fmt.Fprintf(&out, "\n  no answer to request %d", i)
			break
		}
		if step.requests[i].differs {
			fmt.Fprintf(&out, "\n  answered")
		} else {
			fmt.Fprintf(&out, "\n  code %d", r.code)
		}
		if r.zxid > 0 {
			s.zxid = r.zxid
		}
		// Both servers close the connection after such an answer, the real one with a delay.
		if q := step.requests[i]; q.odd && r.code == codeUnimplemented || q.op == opAuth && r.code == codeAuthFailed {
			s.awaitCut(c)
		}
		fmt.Fprintf(&out, " zxid %s", s.relative(r.zxid))
		if r.code == 0 && !step.requests[i].differs {
			fmt.Fprintf(&out, " %s", step.requests[i].print(s, &cursor{b: r.body}))
		}
		if len(xids) > 1 {
			c.events = append(c.events, fmt.Sprintf("answer %d", i))
		}
	}
	switch {
	case closed:
		events := c.events
		_ = c.conn.Close()
		c = s.open(nil)
		c.events = events
		s.sessions[step.session] = c
	case step.reconnect:
		s.resume(step.session)
	}
	for i := range s.sessions {
		// The events of this step precede this answer.
		r, err := s.sessions[i].call(opPing, nil)
		if err != nil {
			fmt.Fprintf(&out, "\n  connection %d is cut", i)
			s.resume(i)
		} else {
			fmt.Fprintf(&out, "\n  ping %d: %s", i, s.relative(r.zxid))
		}
		c := s.sessions[i]
		if closed {
			// The nodes of a session go in any order.
			sort.Strings(c.events)
		}
		for _, e := range c.events {
			fmt.Fprintf(&out, "\n  session %d: %s", i, e)
		}
		c.events = nil
	}
	return out.String()
}

// answerTimeout is less than a session's timeout.
const answerTimeout = 5 * time.Second

// resume resumes a session on another connection.
func (s *subject) resume(i int) {
	old := s.sessions[i]
	_ = old.conn.Close()
	s.sessions[i] = s.open(old)
	s.sessions[i].events = old.events
}

// relative prints a zxid so that servers with another history give the same.
func (s *subject) relative(zxid int64) string {
	switch {
	case zxid <= 0:
		return fmt.Sprint(zxid)
	case zxid < s.base:
		return "before"
	}
	return fmt.Sprintf("%+d", zxid-s.base)
}

func (s *subject) stat(r *cursor) string {
	czxid, mzxid := r.long(), r.long()
	r.long() // ctime
	r.long() // mtime
	version, cversion, aversion, owner := r.int(), r.int(), r.int(), r.long()
	length, children, pzxid := r.int(), r.int(), r.long()
	return fmt.Sprintf("{czxid %s mzxid %s pzxid %s version %d cversion %d aversion %d owner %s length %d children %d}",
		s.relative(czxid), s.relative(mzxid), s.relative(pzxid), version, cversion, aversion, s.owners[owner], length, children)
}

func (s *subject) multi(r *cursor, parts []func(*subject, *cursor) string) string {
	var out strings.Builder
	for i := 0; len(r.b) > 0; i++ {
		op, done, code := r.int(), r.bool(), r.int()
		if done {
			fmt.Fprintf(&out, " done %d", code)
			break
		}
		fmt.Fprintf(&out, " [%d %d", op, code)
		if op == -1 {
			fmt.Fprintf(&out, " error %d", r.int())
		} else if op == opCreate {
			fmt.Fprintf(&out, " %s", printPath(s, r))
		} else if op == opCreate2 {
			fmt.Fprintf(&out, " %s", printPathAndStat(s, r))
		} else if i < len(parts) && parts[i] != nil {
			fmt.Fprintf(&out, " %s", parts[i](s, r))
		}
		out.WriteString("]")
	}
	return out.String()
}

// TestHandshakeIsTheSameAsARealServers compares what the random operations cannot.
func TestHandshakeIsTheSameAsARealServers(t *testing.T) {
	// No clean-up of containers in the middle of a run: it is a transaction.
	real := ensemble.New(t, ensemble.WithServers(1), ensemble.WithEnv("JVMFLAGS",
		"-Dzookeeper.extendedTypesEnabled=true -Dznode.container.checkIntervalMs=86400000"))
	ours := zktest.NewServer(t)
	look := func(address string) (seen []string) {
		open := func(old *rawClient, timeout time.Duration) *rawClient {
			conn, err := net.Dial("tcp", address)
			require.NoError(t, err)
			c := begin(t, conn, old, timeout)
			seen = append(seen, fmt.Sprintf("asked for %v, got %d, session %v", timeout, c.timeout, c.id != 0))
			return c
		}
		for _, timeout := range []time.Duration{0, time.Second, 10 * time.Second, time.Hour} {
			c := open(nil, timeout)
			require.NoError(t, c.conn.Close())
		}
		first := open(nil, 10*time.Second)
		moved := open(first, 10*time.Second)
		seen = append(seen, fmt.Sprintf("same session %v", moved.id == first.id))
		_, err := first.read()
		seen = append(seen, fmt.Sprintf("the old connection is cut: %v", err != nil))
		ask(t, moved, opClose, nil)
		open(moved, 10*time.Second)
		wrong := open(nil, 10*time.Second)
		wrong.pass = make([]byte, 16)
		open(wrong, 10*time.Second)
		return seen
	}
	require.Equal(t, look(real.Servers()[0]), look(ours.Addr()))
}

// TestMemberIsTheSameAsAServerOfItsOwn compares the leader and a lagging follower of a cluster with
// the server that was compared with a real one.
func TestMemberIsTheSameAsAServerOfItsOwn(t *testing.T) {
	repeatable(t)
	both := []string{"3.8.0", "3.9.6"}
	for role, member := range map[string]func(*testing.T, *zktest.Cluster) *zktest.Server{"leader": leader, "follower": follower} {
		for _, version := range testlevel.Pick(both[1:], both[1:], both) {
			t.Run(fmt.Sprintf("%s, %v", role, version), func(t *testing.T) {
				t.Parallel() // it waits most of the time
				c := zktest.NewCluster(t, 3, zktest.WithVersion(version), zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "86400000"}), zktest.WithLag(time.Millisecond))
				compare(t, member(t, c).Addr(), version, false)
			})
		}
	}
}
