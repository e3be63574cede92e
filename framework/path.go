package framework

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
)

// ValidatePath returns an error that wraps [ErrBadPath] unless path can name a node: it must be
// absolute, without empty, "." or ".." elements, without a trailing slash (except for the root) and
// without the characters that ZooKeeper refuses.
func ValidatePath(path string) error {
	if path == "" {
		return fmt.Errorf("%w: path is empty", ErrBadPath)
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
		return fmt.Errorf("%w: %q contains a character at byte %d that ZooKeeper does not allow", ErrBadPath, path, i)
	}
	return nil
}

// isPlain reports whether all characters of path are allowed ASCII characters. Most paths are
// plain.
func isPlain(path string) bool {
	for _, b := range []byte(path) {
		if b <= 0x1f || b >= 0x7f {
			return false
		}
	}
	return true
}

// forbidden reports whether ZooKeeper's data model excludes a character. Java sees a character
// beyond 16 bits as two surrogates, which are excluded.
func forbidden(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// validateNew checks the path of a node to be created.
func validateNew(path string, sequential bool) error {
	if sequential && (strings.HasSuffix(path, "/") || strings.HasSuffix(path, ".")) {
		path += "0" // the server's number completes the name
	}
	if path == "/" {
		return fmt.Errorf("%w: the root cannot be created", ErrBadPath)
	}
	return ValidatePath(path)
}

// validateNamespace checks that "/"+ns is a path.
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
func Join(parent, child string) string { return proto.Join(parent, child) }

// Split returns the parent's path and the last element of an absolute path. It is the inverse of
// [Join].
func Split(path string) (parent, child string) { return proto.Split(path) }

// Unprotected splits the name of a [Protected] node into the original name and the id. For any
// other name it returns child and an empty id.
func Unprotected(child string) (name, id string) { return engine.Unprotected(child) }
