package framework

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gocurator/curator/internal/engine"
)

// ValidatePath reports whether path can name a node: absolute, without empty,
// "." or ".." elements, without a slash at the end (the root is fine) and without
// the characters that ZooKeeper refuses. The error is an [ErrBadPath].
func ValidatePath(path string) error {
	if path == "" {
		return fmt.Errorf("%w: it is empty", ErrBadPath)
	}
	if path[0] != '/' {
		return fmt.Errorf("%w: %q is not absolute", ErrBadPath, path)
	}
	if path == "/" {
		return nil
	}
	for element := range strings.SplitSeq(path[1:], "/") {
		switch element {
		case "":
			return fmt.Errorf("%w: %q has an empty element", ErrBadPath, path)
		case ".", "..":
			return fmt.Errorf("%w: %q has a relative element", ErrBadPath, path)
		}
	}
	if isPlain(path) {
		return nil
	}
	if !utf8.ValidString(path) {
		return fmt.Errorf("%w: %q is not UTF-8", ErrBadPath, path)
	}
	if i := strings.IndexFunc(path, forbidden); i >= 0 {
		return fmt.Errorf("%w: %q has a character that ZooKeeper refuses at %d", ErrBadPath, path, i)
	}
	return nil
}

// isPlain reports whether all characters are ASCII and allowed, as nearly always.
func isPlain(path string) bool {
	for _, b := range []byte(path) {
		if b <= 0x1f || b >= 0x7f {
			return false
		}
	}
	return true
}

// forbidden is the list of characters in the ZooKeeper data model. Java sees those beyond 16 bits as two surrogates, which
// are in it.
func forbidden(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// validateNew accepts the path of a node to be created.
func validateNew(path string, sequential bool) error {
	if sequential && (strings.HasSuffix(path, "/") || strings.HasSuffix(path, ".")) {
		path += "0" // the number makes a name of it
	}
	if path == "/" {
		return fmt.Errorf("%w: the root cannot be created", ErrBadPath)
	}
	return ValidatePath(path)
}

// validateNamespace accepts what is a path once a slash is put before it.
func validateNamespace(ns string) error {
	if ns == "" {
		return nil
	}
	if strings.HasPrefix(ns, "/") {
		return fmt.Errorf("%w: namespace %q must not begin with a slash", ErrBadArgument, ns)
	}
	if err := ValidatePath("/" + ns); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	return nil
}

// Join returns the path of a child of parent, which may be the root.
func Join(parent, child string) string { return engine.Join(parent, child) }

// Split returns the parent's path and the last element of an absolute path: the inverse of [Join].
func Split(path string) (parent, child string) { return engine.Split(path) }

// Unprotected splits the name of a [Protected] node into the name that Create was
// given, and the id, which is a UUID. Any other name is returned as it is, with an
// empty id.
func Unprotected(child string) (name, id string) { return engine.Unprotected(child) }
