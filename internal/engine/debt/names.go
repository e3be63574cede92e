package debt

import (
	"strings"

	"github.com/gocurator/curator/internal/uuid"
)

// protectedPrefix begins the name of a protected node, as in Java's Curator. It is followed by a
// UUID, "-", and the name.
const protectedPrefix = "_c_"

// ProtectedName returns the name of a protected node with an id.
func ProtectedName(id, name string) string { return protectedPrefix + id + "-" + name }

// Unprotected implements framework.Unprotected.
func Unprotected(child string) (name, id string) {
	rest, found := strings.CutPrefix(child, protectedPrefix)
	if !found || len(rest) <= uuid.Length || rest[uuid.Length] != '-' || !uuid.Valid(rest[:uuid.Length]) {
		return child, ""
	}
	return rest[uuid.Length+1:], rest[:uuid.Length]
}
