package zktest

import (
	"fmt"

	"github.com/gocurator/curator/zktest/internal/tree"
)

// WithVersion starts a server that behaves as this release of ZooKeeper: "3.8.0" or "3.9.6", the
// default. It cannot be combined with [LikeKeeper].
//
//	what a client sees                         3.8.0                  3.9.6
//	zxid in the header of an event             -1                     of the transaction; -1 after
//	                                                                  setWatches
//	several watches on one path                the later one          all are kept
//	                                           replaces
//	list of children below a recursive watch   no event               event of a separate watch
//	remove-, checkWatches of kinds 4 and 5     marshalling error (-5) persistent and recursive
//	the same of kinds 1 and 2                  any mode               watches that fire once
//	exists of an unreadable node               stat                   no auth (-102)
//	setWatches for a change of such a node     event                  no event, and no watch
//	multi: create with a bad mode              fails in its part      marshalling error
//	multi: create with the mode of a TTL node  marshalling error      the same, even after
//	                                           in its turn            a failure
//	multi: create with a null access list      fails in its part      marshalling error, no zxid
//	multi: create2, createContainer            created by the mode    created by the operation;
//	                                                                  answer with stat
//	a transaction that cannot be read          uses up a zxid         does not, except a multi
//	access list with an IPv6 address           invalid (-114)         allowed
//	deleteContainer                            bad arguments (-8)     the connection is cut
//
// A real leader of 3.9.6 reuses the number of the last transaction for the multi with null and for
// a transaction that cannot be read, and its ensemble stops there. A [Cluster] does not.
func WithVersion(name string) Option {
	return func(c *config) error {
		for v, other := range tree.VersionNames {
			if other == name {
				c.Version = v
				return nil
			}
		}
		return fmt.Errorf("zktest: unknown version %q: must be 3.8.0 or 3.9.6", name)
	}
}
