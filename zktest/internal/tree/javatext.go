package tree

import (
	"strings"
	"unicode/utf8"

	"github.com/gocurator/curator/internal/proto"
)

// ReadAsJava replaces each string of a request by the string that a Java server decodes, which
// replaces malformed UTF-8.
func ReadAsJava(body proto.Record) {
	switch r := body.(type) {
	case *proto.PathRequest:
		r.Path = javaBytes(r.Path)
	case *proto.ReadRequest:
		r.Path = javaBytes(r.Path)
	case *proto.CreateRequest:
		r.Path = javaBytes(r.Path)
		readACLAsJava(r.ACL)
	case *proto.VersionRequest:
		r.Path = javaBytes(r.Path)
	case *proto.SetDataRequest:
		r.Path = javaBytes(r.Path)
	case *proto.SetACLRequest:
		r.Path = javaBytes(r.Path)
		readACLAsJava(r.ACL)
	case *proto.WatchRequest:
		r.Path = javaBytes(r.Path)
	case *proto.SetWatchesRequest:
		for _, paths := range [][]string{r.Data, r.Exist, r.Child, r.Persistent, r.Recursive} {
			for i, path := range paths {
				paths[i] = javaBytes(path)
			}
		}
	case *proto.MultiRequest:
		for _, op := range r.Ops {
			ReadAsJava(op.Body)
		}
	}
}

func readACLAsJava(list []proto.ACL) {
	for i, a := range list {
		list[i] = proto.ACL{Perms: a.Perms, Scheme: javaBytes(a.Scheme), ID: javaBytes(a.ID)}
	}
}

// javaBytes is a string that was read and written by a real server: see [javaString]. A character
// beyond 16 bits is written as two surrogates of three bytes each.
func javaBytes(text string) string {
	text = javaString(text)
	if !strings.ContainsFunc(text, beyond16Bits) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if !beyond16Bits(r) {
			b.WriteRune(r)
			continue
		}
		r -= 1 << 16
		for _, half := range []rune{0xd800 + r>>10, 0xdc00 + r&0x3ff} {
			b.Write([]byte{byte(0xe0 | half>>12), byte(0x80 | half>>6&0x3f), byte(0x80 | half&0x3f)})
		}
	}
	return b.String()
}

func beyond16Bits(r rune) bool { return r > 0xffff }

// javaString decodes text as Java does: bytes that are not UTF-8 become U+FFFD, once for each
// longest part that is the beginning of a character. A surrogate counts as one character.
func javaString(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && size == 1 {
			size = malformedSize(text)
		}
		b.WriteRune(r)
		text = text[size:]
	}
	return b.String()
}

// started returns the size of a character by its first byte, and the bounds of the second byte.
func started(first byte) (size int, low, high byte) {
	low, high = 0x80, 0xbf
	switch first {
	case 0xe0:
		low = 0xa0
	case 0xf0:
		low = 0x90
	case 0xf4:
		high = 0x8f
	}
	switch {
	case first < 0xc2 || first > 0xf4:
		return 1, low, high
	case first < 0xe0:
		return 2, low, high
	case first < 0xf0:
		return 3, low, high
	}
	return 4, low, high
}

// malformedSize is the number of bytes at the beginning of text, which is not a character, that
// Java replaces by one.
func malformedSize(text string) int {
	size, low, high := started(text[0])
	for i := 1; i < size; i++ {
		if i == len(text) || text[i] < low || text[i] > high {
			return i
		}
		low, high = 0x80, 0xbf
	}
	return size
}
