package engine

import (
	"strings"

	"github.com/gocurator/curator/internal/uuid"
)

// protectedPrefix is how protected names begin, as Curator's ProtectedUtils writes them: "_c_", a
// UUID, "-", and the name.
const protectedPrefix = "_c_"

func protectedName(id, name string) string { return protectedPrefix + id + "-" + name }

// Unprotected implements framework.Unprotected.
func Unprotected(child string) (name, id string) {
	rest, found := strings.CutPrefix(child, protectedPrefix)
	if !found || len(rest) <= uuid.Length || rest[uuid.Length] != '-' || !uuid.Valid(rest[:uuid.Length]) {
		return child, ""
	}
	return rest[uuid.Length+1:], rest[:uuid.Length]
}
