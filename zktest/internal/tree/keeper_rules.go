package tree

import (
	"math"
	"strings"

	"github.com/gocurator/curator/internal/proto"
)

// keeperPaths are a Keeper's own nodes below /keeper, and their data. The address is added later.
var keeperPaths = map[string]string{
	"/keeper/api_version": "2", // lists with filters, reads of several nodes
	// Bits, the highest first. The eighth is persistent watches, the ninth create2.
	"/keeper/feature_flags": "\xff\x80",
	"/keeper/config":        "",
}

// keeperRefuses reports whether a Keeper refuses a create that ZooKeeper carries out.
func (x *Txn) keeperRefuses(path string, mode Mode) bool {
	age := x.Tree.Rules.Keeper
	if age < KeeperNew || !strings.Contains(path, "/") {
		return false
	}
	dir, _ := Split(path)
	parent := x.Tree.Nodes[dir]
	return age == KeeperNew && mode == modeContainer || parent != nil && parent.TTL > 0
}

// keeperForbids reports whether a request would change a Keeper's own nodes, or create a node below
// them. The newest Keepers forbid checks of them as well.
func (c *Rules) keeperForbids(op proto.Op, body proto.Record) bool {
	path := ""
	switch r := body.(type) {
	case *proto.CreateRequest:
		if path = r.Path; path == "/keeper" && Mode(r.Flags).sequential() {
			return false
		}
	case *proto.VersionRequest:
		if path = r.Path; op == proto.OpCheck && c.Keeper < KeeperNewest {
			return false
		}
	case *proto.SetDataRequest:
		path = r.Path
	case *proto.SetACLRequest:
		path = r.Path
	}
	return c.Keeper > KeeperOld && (path == "/keeper" || Below(path, "/keeper"))
}

// shownNumber returns the number of a sequential node. New Keepers count with 64 bits.
func (c *Rules) shownNumber(count int32) int64 {
	if c.Keeper >= KeeperNew {
		return int64(uint32(count))
	}
	return int64(count)
}

// keeperContainer is the ephemeralOwner of a container, as clients of the newest Keepers see it.
const keeperContainer = math.MinInt64
