package tree

import (
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// Rules are the settings by which a tree behaves. They are the same on every member of a cluster.
type Rules struct {
	Version   version
	Keeper    KeeperAge // 0: ZooKeeper
	TTLNodes  bool
	Quotas    bool
	Reconfig  bool
	SASL      bool          // access lists may have the scheme sasl
	NeverUsed time.Duration // a container without a first child is deleted at this age; 0: never
}

// reconfigCode returns the answer to a reconfiguration.
func (c *Rules) reconfigCode() proto.Code {
	if c.Reconfig {
		return proto.Unimplemented
	}
	return proto.ReconfigDisabled
}

// version is a release of ZooKeeper that a server can be like.
type version int

// The releases.
const (
	V38 version = iota + 1
	V39
)

// Newest is the version of a server by default.
const Newest = V39

// VersionNames are the releases by which options name them.
var VersionNames = map[version]string{V38: "3.8.0", V39: "3.9.6"}

// String returns the number of the release, such as "3.9.6".
func (v version) String() string { return VersionNames[v] }

// KeeperAge says which ClickHouse Keeper a server is like. See zktest.LikeKeeper.
type KeeperAge int

// The ages of Keepers.
const (
	KeeperOld KeeperAge = iota + 1
	KeeperRecent
	KeeperNew
	KeeperNewest
)

// KeeperAges are the ages by name.
var KeeperAges = map[string]KeeperAge{"old": KeeperOld, "recent": KeeperRecent, "new": KeeperNew, "newest": KeeperNewest}

// EventPath returns the path in the event for a recursive watch of the path watched.
func (c *Rules) EventPath(e Event, watched string) string {
	if c.Keeper != 0 {
		return watched
	}
	return e.Path
}
