package engine

import (
	"strings"

	"github.com/gocurator/curator/internal/uuid"
)

// Join is as in package framework, and so are Split and Unprotected.
func Join(parent, child string) string {
	if parent == "/" {
		return "/" + child
	}
	return parent + "/" + child
}

func Split(path string) (parent, child string) {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/", path[i+1:]
	}
	return path[:i], path[i+1:]
}

// protectedPrefix is how protected names begin, as Curator's ProtectedUtils writes them: "_c_", a UUID, "-", and the name.
const protectedPrefix = "_c_"

func protectedName(id, name string) string { return protectedPrefix + id + "-" + name }

func Unprotected(child string) (name, id string) {
	rest, found := strings.CutPrefix(child, protectedPrefix)
	if !found || len(rest) <= uuid.Length || rest[uuid.Length] != '-' || !uuid.Valid(rest[:uuid.Length]) {
		return child, ""
	}
	return rest[uuid.Length+1:], rest[:uuid.Length]
}
