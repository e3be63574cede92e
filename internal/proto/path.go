package proto

import "strings"

// Join returns the path of a child of an absolute path.
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
