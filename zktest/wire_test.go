package zktest_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sort"
	"strings"
	"time"
)

// rawClient speaks the protocol without a library, so that every reply can be checked and every
// mistake be sent. It is not safe for concurrent use.
type rawClient struct {
	conn    net.Conn
	id      int64
	pass    []byte
	timeout int32
	xid     int32    // of the last request
	numbers *int32   // of the last request of any connection of the session
	seen    int64    // the last zxid that it says it has seen, when it connects
	events  []string // since the last look

	printZxid func(zxid int64) string // of events; nil: they are printed without
}

// dialRaw opens a connection and a new session, or resumes an old one.
func dialRaw(conn net.Conn, old *rawClient, timeout time.Duration) (*rawClient, error) {
	c := &rawClient{conn: conn, pass: make([]byte, 16), numbers: new(int32)}
	if old != nil {
		c.id, c.pass, c.seen, c.numbers = old.id, old.pass, old.seen, old.numbers
	}
	var b buffer
	b.int(0).long(c.seen).int(int32(timeout.Milliseconds())).long(c.id).bytes(c.pass)
	if err := c.write(b); err != nil {
		return nil, err
	}
	reply, err := c.read()
	if err != nil {
		return nil, err
	}
	r := &cursor{b: reply}
	r.int()
	c.timeout, c.id, c.pass = r.int(), r.long(), r.bytes()
	return c, nil
}

func (c *rawClient) write(b buffer) error {
	if err := c.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	_, err := c.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

func (c *rawClient) read() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	record := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c.conn, record)
	return record, err
}

// reply is an answer: its header, and what follows.
type reply struct {
	zxid int64
	code int32
	body []byte
}

// call sends a request and reads up to its answer. It keeps the events before it.
func (c *rawClient) call(op int32, body buffer) (reply, error) {
	xid, request := c.request(op, body)
	if err := c.write(request); err != nil {
		return reply{}, err
	}
	return c.answer(xid)
}

// request puts a header before a body.
func (c *rawClient) request(op int32, body buffer) (xid int32, b buffer) {
	xid = -2
	switch op {
	case opPing:
	case opAuth:
		xid = -4
	default:
		*c.numbers++
		c.xid = *c.numbers
		xid = c.xid
	}
	b.int(xid).int(op)
	return xid, append(b, body...)
}

// answer reads up to the answer to a request. It keeps the events before it.
func (c *rawClient) answer(xid int32) (reply, error) {
	for {
		record, err := c.read()
		if err != nil {
			return reply{}, err
		}
		r := &cursor{b: record}
		got, zxid, code := r.int(), r.long(), r.int()
		if got == -1 {
			kind := r.int()
			r.int() // state
			e := fmt.Sprintf("event %d %s", kind, r.text())
			if c.printZxid != nil {
				e += " zxid " + c.printZxid(zxid)
			}
			c.events = append(c.events, e)
			continue
		}
		if got != xid {
			return reply{}, fmt.Errorf("reply to %d, want %d", got, xid)
		}
		return reply{zxid, code, r.b}, nil
	}
}

const (
	opCreate          = 1
	opDelete          = 2
	opExists          = 3
	opGetData         = 4
	opSetData         = 5
	opGetACL          = 6
	opSetACL          = 7
	opGetChildren     = 8
	opSync            = 9
	opPing            = 11
	opGetChildren2    = 12
	opCheck           = 13
	opMulti           = 14
	opCreate2         = 15
	opReconfig        = 16
	opCheckWatches    = 17
	opRemoveWatches   = 18
	opCreateContainer = 19
	opDeleteContainer = 20
	opCreateTTL       = 21
	opMultiRead       = 22
	opAuth            = 100
	opSetWatches      = 101
	opSASL            = 102
	opGetEphemerals   = 103
	opAllChildren     = 104
	opSetWatches2     = 105
	opAddWatch        = 106
	opWhoAmI          = 107
	opClose           = -11
)

// buffer puts a record together.
type buffer []byte

func (b *buffer) int(v int32) *buffer {
	*b = binary.BigEndian.AppendUint32(*b, uint32(v))
	return b
}

func (b *buffer) long(v int64) *buffer {
	*b = binary.BigEndian.AppendUint64(*b, uint64(v))
	return b
}

func (b *buffer) bool(v bool) *buffer {
	if v {
		*b = append(*b, 1)
	} else {
		*b = append(*b, 0)
	}
	return b
}

func (b *buffer) bytes(v []byte) *buffer {
	if v == nil {
		return b.int(-1)
	}
	b.int(int32(len(v)))
	*b = append(*b, v...)
	return b
}

func (b *buffer) text(v string) *buffer { return b.bytes([]byte(v)) }

func (b *buffer) texts(v ...string) *buffer {
	b.int(int32(len(v)))
	for _, s := range v {
		b.text(s)
	}
	return b
}

// creation is the body of a create with data, and an access list of one.
func creation(path string, data []byte, perms int32, scheme, id string, flags int32) buffer {
	var b buffer
	b.text(path).bytes(data).int(1).int(perms).text(scheme).text(id).int(flags)
	return b
}

func creationOf(path, data string) buffer {
	return creation(path, []byte(data), 31, "world", "anyone", 0)
}

func create(path string, flags int32) buffer {
	return creation(path, nil, 31, "world", "anyone", flags)
}

func createTTL(path string, milliseconds int64) buffer {
	b := create(path, 5)
	return *b.long(milliseconds)
}

func setBody(path, data string) buffer {
	b := pathOf(path)
	return *b.text(data).int(-1)
}

func deletion(path string) buffer {
	b := pathOf(path)
	return *b.int(-1)
}

func watched(path string, watch bool) buffer {
	b := pathOf(path)
	return *b.bool(watch)
}

func addWatch(path string, mode int32) buffer {
	b := pathOf(path)
	return *b.int(mode)
}

// pathOf is the body of a request that has a path only.
func pathOf(path string) buffer { return *new(buffer).text(path) }

// digest has credentials.
func digest(credentials string) buffer { return *new(buffer).int(0).text("digest").text(credentials) }

var reconfiguration = *new(buffer).text("server.2=127.0.0.1:1:2;3").bytes(nil).bytes(nil).long(-1)

// part is a part of a multi.
func part(op int32, body buffer) buffer {
	return append(*new(buffer).int(op).bool(false).int(-1), body...)
}

func multiOf(parts ...buffer) buffer {
	b := slices.Concat(parts...)
	return *b.int(-1).bool(true).int(-1)
}

// cursor takes a record apart. Past its end everything is zero.
type cursor struct{ b []byte }

func (r *cursor) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b = nil
		return make([]byte, max(n, 0))
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *cursor) int() int32   { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *cursor) long() int64  { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *cursor) bool() bool   { return r.take(1)[0] != 0 }
func (r *cursor) text() string { return string(r.bytes()) }

func (r *cursor) bytes() []byte {
	n := r.int()
	if n < 0 {
		return nil
	}
	return r.take(int(n))
}

func (r *cursor) texts() []string {
	var list []string
	for range r.int() {
		list = append(list, r.text())
	}
	sort.Strings(list) // servers list in any order
	return list
}

// data keeps none and empty apart.
func (r *cursor) data() string {
	if b := r.bytes(); b != nil {
		return fmt.Sprintf("%q", b)
	}
	return "none"
}

func (r *cursor) acls() string {
	var list []string
	for range r.int() {
		list = append(list, fmt.Sprintf("%d %s %s", r.int(), r.text(), r.text()))
	}
	sort.Strings(list) // servers keep who a client is in any order
	return "[" + strings.Join(list, ", ") + "]"
}

// who prints the identity that a server sees of a client, without its address.
func (r *cursor) who() string {
	var list []string
	for range r.int() {
		scheme, user := r.text(), r.text()
		if scheme == "ip" {
			user = "somewhere"
		}
		list = append(list, scheme+" "+user)
	}
	sort.Strings(list)
	return fmt.Sprint(list)
}
