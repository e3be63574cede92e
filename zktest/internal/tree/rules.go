package tree

import (
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// Rules are a tree's settings, which are the same on every member of a cluster.
type Rules struct {
	Version   version
	Keeper    KeeperAge // 0 for ZooKeeper
	TTLNodes  bool
	Quotas    bool
	Reconfig  bool
	SASL      bool          // access lists may use the scheme sasl
	NeverUsed time.Duration // age at which an unused container is deleted; 0 for never
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

// The releases that a server can imitate.
const (
	V38 version = iota + 1
	V39
)

// Newest is a server's default version.
const Newest = V39

// VersionNames maps the versions to the release numbers that options accept.
var VersionNames = map[version]string{V38: "3.8.0", V39: "3.9.6"}

// String returns the number of the release, such as "3.9.6".
func (v version) String() string { return VersionNames[v] }

// KeeperAge selects the ClickHouse Keeper that a server imitates, see zktest.LikeKeeper.
type KeeperAge int

// The ages of Keepers, oldest first.
const (
	KeeperOld KeeperAge = iota + 1
	KeeperRecent
	KeeperNew
	KeeperNewest
)

// KeeperAges maps the names that options accept to ages.
var KeeperAges = map[string]KeeperAge{"old": KeeperOld, "recent": KeeperRecent, "new": KeeperNew, "newest": KeeperNewest}

// EventPath returns the path in an event for a recursive watch on the path watched.
func (c *Rules) EventPath(e Event, watched string) string {
	if c.Keeper != 0 {
		return watched
	}
	return e.Path
}
