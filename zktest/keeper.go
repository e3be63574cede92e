package zktest

import (
	"fmt"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// keeperUnknown are the operations that each Keeper does not know.
var keeperUnknown = map[tree.KeeperAge][]proto.Op{
	tree.KeeperOld: {
		proto.OpCreate2, proto.OpReconfig, proto.OpCheckWatches, proto.OpRemoveWatches, proto.OpCreateContainer, proto.OpDeleteContainer, proto.OpCreateTTL, proto.OpMultiRead,
		proto.OpSetWatches, proto.OpGetEphemerals, proto.OpGetChildrenNumber, proto.OpSetWatches2, proto.OpAddWatch, proto.OpWhoAmI, proto.OpSASL,
	},
	tree.KeeperRecent: {proto.OpCreateContainer, proto.OpDeleteContainer, proto.OpCreateTTL, proto.OpGetEphemerals, proto.OpGetChildrenNumber, proto.OpWhoAmI, proto.OpSASL},
	tree.KeeperNew:    {proto.OpDeleteContainer, proto.OpGetEphemerals, proto.OpGetChildrenNumber, proto.OpWhoAmI, proto.OpSASL},
	tree.KeeperNewest: {proto.OpDeleteContainer, proto.OpGetEphemerals, proto.OpGetChildrenNumber, proto.OpWhoAmI, proto.OpSASL},
}

// LikeKeeper starts a server that differs from ZooKeeper as ClickHouse Keeper does. age is
// "newest", "new", "recent" or "old". The package comment lists the differences, which were not
// tried on a real Keeper.
func LikeKeeper(age string) Option {
	return func(c *config) error {
		c.Keeper = tree.KeeperAges[age]
		if c.Keeper == 0 {
			return fmt.Errorf("zktest: unknown age of Keeper %q: must be old, recent, new or newest", age)
		}
		c.Unknown = append(c.Unknown, keeperUnknown[c.Keeper]...)
		return nil
	}
}
