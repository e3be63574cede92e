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

// LikeKeeper starts a server that imitates a ClickHouse Keeper. The differences from ZooKeeper
// follow Keeper's sources, as of autumn 2026, and measurements of its users, and were not tried on
// a real Keeper. It cannot be combined with [WithVersion].
//
// The ages are:
//
//   - "newest" is a Keeper of autumn 2026. Clients see the least number of 64 bits as the
//     ephemeralOwner of a container.
//   - "new" is a Keeper of the middle of 2026 (26.6). It answers a request for a container with
//     "bad arguments" (-8).
//   - "recent" is a Keeper of 2025. It does not know createContainer and createTTL. Its sequence
//     numbers end at 2^31 - 1, as in ZooKeeper, and in newer Keepers at 2^32 - 1.
//   - "old" is a Keeper of 2022 (before 22.10). It has no /keeper. It knows the operations of
//     ZooKeeper 3.4, without setWatches: no create2, checkWatches, removeWatches, reconfig,
//     containers, TTL nodes, multiRead, setWatches2 or addWatch.
//
// All ages differ from ZooKeeper in these points:
//
//   - A Keeper cuts the connection on an operation that it does not know. Only old Keepers do not
//     know reconfig. No Keeper knows getEphemerals, getAllChildrenNumber, whoAmI and SASL.
//   - A Keeper never resumes a session. A client that requests one receives a new session with
//     another id. The old session expires after its timeout, and then its ephemeral nodes are
//     deleted.
//   - The event of a recursive watch carries the path of the watch, not the path of the node.
//   - The password of every session is 16 zeros.
//   - In the stat of a node, pzxid stays as it is when a child is deleted, and cversion also counts
//     writes of the children's data.
//   - There is no /zookeeper. Keepers after 2022 have /keeper/api_version, /keeper/feature_flags
//     and, with the configuration, /keeper/config. A Keeper with the data of a ZooKeeper has both:
//     create /zookeeper with [Server.Create]. A client that writes, deletes or creates /keeper or a
//     node below it is answered with "bad arguments" (-8), and on the newest Keepers also a client
//     that checks one.
//   - A child of a TTL node is refused with "bad arguments" by new and newest Keepers.
//   - There is a feature flag for some operations: multiRead, create2, persistent watches, and
//     createTTL. If a flag is off, the Keeper does not know the operation. Here all flags of the
//     age are on, except the one for createTTL, which is on with the property extendedTypesEnabled.
//
// The operations from 500 on, /keeper/availability_zone and /keeper/max_request_size are missing
// here. The properties minSessionTimeout and maxSessionTimeout limit the session timeouts; a Keeper
// grants 10 s to 100 s by default.
//
// [Server.RefuseSessions] imitates a Keeper without a leader. [Server.Stop] imitates the crash of a
// Keeper. A Keeper that shuts down gracefully expires the sessions of its clients first: see
// [Server.ExpireSession].
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
