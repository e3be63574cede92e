// Package tree is the data of a ZooKeeper server: znodes, transactions, access lists, quotas and
// the expiry of containers and TTL nodes. It is a state machine without locks, connections or a
// clock. The caller serializes all calls.
package tree

import (
	"fmt"
	"strings"

	"github.com/gocurator/curator/internal/proto"
)

// ParseOp returns the operation with this name in ZooKeeper's documentation. It fails if the name
// is unknown.
func ParseOp(name string) (proto.Op, error) {
	for op := proto.OpCloseSession; op <= proto.OpWhoAmI; op++ {
		if op.String() == name && op != proto.OpError && op != proto.OpDeleteContainer && !strings.HasPrefix(name, "op ") {
			return op, nil
		}
	}
	return 0, fmt.Errorf("zktest: unknown operation %q: must be a name of ZooKeeper's documentation, such as getChildren2", name)
}

// CheckOps returns an error if a name is not the name of an operation.
func CheckOps(names []string) error {
	for _, name := range names {
		if _, err := ParseOp(name); err != nil {
			return err
		}
	}
	return nil
}
