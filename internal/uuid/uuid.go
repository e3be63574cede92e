// Package uuid generates random ids for the names of nodes.
package uuid

import (
	"crypto/rand"
	"encoding/hex"
)

// Length is the length of a UUID as text.
const Length = 36

// New returns a random UUID (RFC 9562, version 4) in Java's notation. Its source is the operating
// system, which knows that a virtual machine was cloned: a client deletes nodes by their id.
func New() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	id := make([]byte, 0, Length)
	for i, part := range [...][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			id = append(id, '-')
		}
		id = hex.AppendEncode(id, part)
	}
	return string(id)
}

// Valid reports whether s has the notation of a UUID.
func Valid(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		default:
			return false
		}
	}
	return len(s) == Length
}
