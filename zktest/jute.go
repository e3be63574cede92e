package zktest

import (
	"encoding/binary"
	"errors"
)

// errMalformed is a record that ends too early or claims an impossible length.
var errMalformed = errors.New("malformed record")

// reader takes a record apart. After an error all further values are zero.
type reader struct {
	buf []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.buf) {
		r.err = errMalformed
		return nil
	}
	b := r.buf[:n]
	r.buf = r.buf[n:]
	return b
}

func (r *reader) bool() bool {
	b := r.take(1)
	return b != nil && b[0] != 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// bytes keeps the difference between none (nil) and empty.
func (r *reader) bytes() []byte {
	n := r.int32()
	if n == -1 || r.err != nil {
		return nil
	}
	return append([]byte{}, r.take(int(n))...)
}

func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) strings() []string {
	n := r.int32()
	var list []string
	for range n {
		if r.err != nil {
			return nil
		}
		list = append(list, r.string())
	}
	return list
}

// acls returns nil for a list that is missing or empty.
func (r *reader) acls() []acl {
	n := r.int32()
	var list []acl
	for range n {
		if r.err != nil {
			return nil
		}
		list = append(list, acl{perms: r.int32(), id: identity{scheme: r.string(), id: r.string()}})
	}
	return list
}

// writer puts a record together.
type writer struct{ buf []byte }

func (w *writer) bool(v bool) {
	if v {
		w.buf = append(w.buf, 1)
	} else {
		w.buf = append(w.buf, 0)
	}
}

func (w *writer) int32(v int32) { w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(v)) }
func (w *writer) int64(v int64) { w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(v)) }

func (w *writer) bytes(v []byte) {
	if v == nil {
		w.int32(-1)
		return
	}
	w.int32(int32(len(v)))
	w.buf = append(w.buf, v...)
}

func (w *writer) string(v string) {
	w.int32(int32(len(v)))
	w.buf = append(w.buf, v...)
}

func (w *writer) strings(v []string) {
	w.int32(int32(len(v)))
	for _, s := range v {
		w.string(s)
	}
}

func (w *writer) acls(v []acl) {
	w.int32(int32(len(v)))
	for _, a := range v {
		w.int32(a.perms)
		w.string(a.id.scheme)
		w.string(a.id.id)
	}
}

func (w *writer) stat(s Stat) {
	w.int64(s.Czxid)
	w.int64(s.Mzxid)
	w.int64(s.Ctime)
	w.int64(s.Mtime)
	w.int32(s.Version)
	w.int32(s.Cversion)
	w.int32(s.Aversion)
	w.int64(s.EphemeralOwner)
	w.int32(s.DataLength)
	w.int32(s.NumChildren)
	w.int64(s.Pzxid)
}

// frame is a record with its length before it.
func frame(record []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(record)), uint32(len(record))), record...)
}
