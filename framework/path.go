package framework

import (
	"fmt"
	"strings"
	"unicode/utf8"
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
	if !utf8.ValidString(path) {
		return fmt.Errorf("%w: %q is not UTF-8", ErrBadPath, path)
	}
	if i := strings.IndexFunc(path, forbidden); i >= 0 {
		return fmt.Errorf("%w: %q has a character that ZooKeeper refuses at %d", ErrBadPath, path, i)
	}
	return nil
}

// forbidden is the list of characters in the ZooKeeper data model.
func forbidden(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff
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

// Join puts a child's name below a parent path, which may be the root.
func Join(parent, child string) string {
	if parent == "/" {
		return "/" + child
	}
	return parent + "/" + child
}

// Split cuts the last element off an absolute path: the inverse of [Join].
func Split(path string) (parent, child string) {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/", path[i+1:]
	}
	return path[:i], path[i+1:]
}

// real turns a caller's path into the server's.
func (c *Client) real(path string) string {
	if c.namespace == "" {
		return path
	}
	if path == "/" {
		return "/" + c.namespace
	}
	return "/" + c.namespace + path
}

// realNew is real for a node to be created: "/" is then a sequential one without a name, which
// belongs into the namespace and not beside it.
func (c *Client) realNew(path string) string {
	if path == "/" && c.namespace != "" {
		return "/" + c.namespace + "/"
	}
	return c.real(path)
}

// unreal turns a server's path into the caller's: the inverse of real. A path
// outside the namespace stays as it is.
func (c *Client) unreal(path string) string {
	if c.namespace == "" {
		return path
	}
	rest, found := strings.CutPrefix(path, "/"+c.namespace)
	switch {
	case found && rest == "":
		return "/"
	case found && rest[0] == '/':
		return rest
	}
	return path
}
