package engine

import "strings"

// Join returns the path of a child of parent, which may be the root.
func Join(parent, child string) string {
	if parent == "/" {
		return "/" + child
	}
	return parent + "/" + child
}

// Split returns the parent's path and the last element of an absolute path: the inverse of [Join].
func Split(path string) (parent, child string) {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/", path[i+1:]
	}
	return path[:i], path[i+1:]
}

// Protected names, as Curator's ProtectedUtils writes them: "_c_", a UUID of 36
// characters, "-", and the name.
const (
	protectedPrefix = "_c_"
	idLength        = 36
)

func protectedName(id, name string) string { return protectedPrefix + id + "-" + name }

// Unprotected splits the name of a [Protected] node into the name that Create was
// given, and the id, which is a UUID. Any other name is returned as it is, with an
// empty id.
func Unprotected(child string) (name, id string) {
	rest, found := strings.CutPrefix(child, protectedPrefix)
	if !found || len(rest) <= idLength || rest[idLength] != '-' || !isID(rest[:idLength]) {
		return child, ""
	}
	return rest[idLength+1:], rest[:idLength]
}

// isID reports whether s, of idLength bytes, is written as a UUID is.
func isID(s string) bool {
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
	return true
}
