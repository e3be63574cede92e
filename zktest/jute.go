package zktest

import (
	"errors"

	"github.com/gocurator/curator/internal/proto"
)

// errMalformed is a record that ends too early or claims an impossible length.
var errMalformed = errors.New("malformed record")

// reader takes a record apart. After an error all further values are zero.
type reader struct {
	buf []byte
	err error
}

// read has proto read one value.
func read[T any](r *reader, value func(*proto.Decoder) T) T {
	var none T
	if r.err != nil {
		return none
	}
	d := proto.NewDecoder(r.buf)
	v := value(&d)
	r.buf = d.Rest()
	if d.Err() != nil {
		r.err = errMalformed
		return none
	}
	return v
}

func (r *reader) bool() bool   { return read(r, (*proto.Decoder).Bool) }
func (r *reader) int32() int32 { return read(r, (*proto.Decoder).Int32) }
func (r *reader) int64() int64 { return read(r, (*proto.Decoder).Int64) }

// bytes keeps the difference between none (nil) and empty.
func (r *reader) bytes() []byte { return read(r, (*proto.Decoder).Bytes) }

func (r *reader) string() string { return read(r, (*proto.Decoder).String) }

func (r *reader) strings() []string { return read(r, (*proto.Decoder).Strings) }

// acls returns nil for a list that is missing or empty.
func (r *reader) acls() []acl {
	var list []acl
	for _, a := range read(r, (*proto.Decoder).ACLs) {
		list = append(list, acl{perms: a.Perms, id: identity{scheme: a.Scheme, id: a.ID}})
	}
	return list
}

// writer puts a record together.
type writer struct{ buf []byte }

func (w *writer) bool(v bool)        { w.buf = proto.AppendBool(w.buf, v) }
func (w *writer) int32(v int32)      { w.buf = proto.AppendInt32(w.buf, v) }
func (w *writer) int64(v int64)      { w.buf = proto.AppendInt64(w.buf, v) }
func (w *writer) bytes(v []byte)     { w.buf = proto.AppendBytes(w.buf, v) }
func (w *writer) string(v string)    { w.buf = proto.AppendString(w.buf, v) }
func (w *writer) strings(v []string) { w.buf = proto.AppendStrings(w.buf, v) }

func (w *writer) acls(v []acl) {
	list := make([]proto.ACL, len(v))
	for i, a := range v {
		list[i] = proto.ACL{Perms: a.perms, Scheme: a.id.scheme, ID: a.id.id}
	}
	w.buf = proto.AppendACLs(w.buf, list)
}

func (w *writer) stat(s Stat) {
	record := proto.Stat(s)
	w.buf = record.Append(w.buf)
}

// frame is a record with its length before it.
func frame(record []byte) []byte {
	return proto.Seal(append(proto.Begin(len(record)), record...))
}
