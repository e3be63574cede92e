package zktest

import "fmt"

// Version is a release of ZooKeeper: see [WithVersion]. A server is like 3.9.6 without that option, and these differ:
//
//	what a client sees                                3.8.0                       3.9.6
//	zxid in the header of an event                    -1                          of the transaction; -1 after setWatches
//	several watches on one path of a connection       the later one replaces      all are kept
//	list of children below a recursive watch          no event                    event of a watch of its own
//	removeWatches, checkWatches of kinds 4 and 5      marshalling error (-5)      persistent, recursive watches
//	the same of kinds 1 and 2                         whatever mode               only watches that fire once
//	exists of a node that the client may not read     stat                        no auth (-102)
//	setWatches for a change of such a node            event                       nothing, and no watch
//	multi: create with a bad mode                     fails in its part           marshalling error
//	multi: create with the mode of a TTL node         the same when its turn comes  the same, whatever is before
//	multi: create with null for its access list       fails in its part           marshalling error without a zxid
//	multi: create2, createContainer                   made by the mode            made by the operation; answer with stat
//	a transaction that cannot be read                 uses up a zxid              does not, but for multi
//	access list with an IPv6 address                  invalid (-114)              allowed
//	deleteContainer                                   bad arguments (-8)          the connection is cut
//
// A real leader of 3.9.6 that gets the multi with null, or cannot read a transaction, gives it the number of the one before, and
// the ensemble does not go on from there. A [Cluster] does.
type Version int

// The releases that a server can be like.
const (
	V3_8 Version = iota + 1 // 3.8.0
	V3_9                    // 3.9.6
)

// newest is the version of a server by default.
const newest = V3_9

// versionNumbers are the versions as they are written.
var versionNumbers = map[Version]string{V3_8: "3.8.0", V3_9: "3.9.6"}

// String is the number of the release, such as "3.9.6".
func (v Version) String() string {
	if number := versionNumbers[v]; number != "" {
		return number
	}
	return fmt.Sprintf("version %d", int(v))
}

// WithVersion makes a server that behaves as this release of ZooKeeper does. The default is the newest one, [V3_9].
// With [LikeKeeper] it is an error.
func WithVersion(v Version) Option {
	return func(c *config) error {
		if versionNumbers[v] == "" {
			return fmt.Errorf("zktest: no such version: %d", int(v))
		}
		c.version = v
		return nil
	}
}
