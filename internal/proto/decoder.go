package proto

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is returned for a record that is too short, or has an impossible length or count.
var ErrMalformed = errors.New("malformed record")

// Decoder reads the fields of records in order. After an error all further values are zero, and Err
// returns it. The zero Decoder is empty.
type Decoder struct {
	rest   []byte
	err    error
	server bool // see NewServerDecoder
	owned  int  // the size of an input that is passed on instead of copied; 0: it is copied
}

// NewDecoder returns a Decoder of b, which must not change while the Decoder is in use.
func NewDecoder(b []byte) Decoder { return Decoder{rest: b} }

// NewServerDecoder returns a Decoder as tolerant as a ZooKeeper server: a list with a negative
// length is empty, and nil only if the length is -1.
func NewServerDecoder(b []byte) Decoder { return Decoder{rest: b, server: true} }

// NewOwnedDecoder returns a Decoder of b, which must never change again. A buffer that fills at
// least half of b is returned without a copy.
func NewOwnedDecoder(b []byte) Decoder { return Decoder{rest: b, owned: len(b)} }

// Err returns nil if every value could be read. Otherwise it wraps [ErrMalformed].
func (d *Decoder) Err() error { return d.err }

// Len returns the number of unread bytes.
func (d *Decoder) Len() int { return len(d.rest) }

// Rest returns the unread bytes. It is empty after an error.
func (d *Decoder) Rest() []byte { return d.rest }

// fail keeps the first error.
func (d *Decoder) fail(what string, n int) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s of %d in the last %d bytes", ErrMalformed, what, n, len(d.rest))
	}
	d.rest = nil
}

// take returns the next n bytes of the input itself.
func (d *Decoder) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.fail("field", n)
		return nil
	}
	taken := d.rest[:n:n]
	d.rest = d.rest[n:]
	return taken
}

// Bool reads one byte.
func (d *Decoder) Bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

// Int32 reads four bytes.
func (d *Decoder) Int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 reads eight bytes.
func (d *Decoder) Int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// raw reads a length and that many bytes of the input itself. It returns nil for length -1, "none".
func (d *Decoder) raw() []byte {
	n := d.Int32()
	if n == -1 || d.err != nil {
		return nil
	}
	return d.take(int(n))
}

// Bytes reads a buffer. A missing buffer is nil, not empty.
func (d *Decoder) Bytes() []byte {
	b := d.raw()
	if b == nil {
		return nil
	}
	if d.owned > 0 && len(b) >= d.owned/2 {
		return b // a smaller one would keep the whole input in memory
	}
	return append(make([]byte, 0, len(b)), b...)
}

// String reads a string. A missing string is empty.
func (d *Decoder) String() string { return string(d.raw()) }

// count reads the length of a list whose elements take at least size bytes each. It returns -1 for
// none.
func (d *Decoder) count(size int) int {
	n := int(d.Int32())
	if n < -1 && d.server {
		return 0
	}
	if n < -1 || n > len(d.rest)/size {
		d.fail("list", n)
	}
	if d.err != nil {
		return -1
	}
	return n
}

// Strings reads a list of strings. A missing list is nil. All strings share one allocation.
func (d *Decoder) Strings() []string {
	n := d.count(4)
	if n < 0 {
		return nil
	}
	rest := d.rest
	for range n {
		d.raw()
	}
	if d.err != nil {
		return nil
	}
	all := string(rest[:len(rest)-len(d.rest)]) // one allocation, without the rest of the frame
	list := make([]string, n)
	for i, at := 0, 0; i < n; i++ {
		at += 4
		length := max(int(int32(binary.BigEndian.Uint32(rest[at-4:]))), 0)
		list[i] = all[at : at+length]
		at += length
	}
	return list
}

// ACLs reads an access control list. A missing list is nil.
func (d *Decoder) ACLs() []ACL {
	n := d.count(12)
	if n < 0 {
		return nil
	}
	list := make([]ACL, 0, n)
	for range n {
		list = append(list, ACL{Perms: d.Int32(), Scheme: d.String(), ID: d.String()})
		if d.err != nil {
			return nil
		}
	}
	return list
}

// Appending the fields of a record.

// AppendBool appends one byte.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendInt32 appends four bytes.
func AppendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendInt64 appends eight bytes.
func AppendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendBytes appends a length and v. It keeps the difference between none (nil) and empty.
func AppendBytes(b, v []byte) []byte {
	if v == nil {
		return AppendInt32(b, -1)
	}
	return append(AppendInt32(b, int32(len(v))), v...)
}

// AppendString appends a length and v.
func AppendString(b []byte, v string) []byte { return append(AppendInt32(b, int32(len(v))), v...) }

// AppendStrings appends a count and all strings.
func AppendStrings(b []byte, v []string) []byte {
	b = AppendInt32(b, int32(len(v)))
	for _, s := range v {
		b = AppendString(b, s)
	}
	return b
}

// AppendACLs appends a count and all entries.
func AppendACLs(b []byte, v []ACL) []byte {
	b = AppendInt32(b, int32(len(v)))
	for _, a := range v {
		b = AppendString(AppendString(AppendInt32(b, a.Perms), a.Scheme), a.ID)
	}
	return b
}
