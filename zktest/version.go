package zktest

import (
	"fmt"

	"github.com/gocurator/curator/zktest/internal/tree"
)

// WithVersion starts a server that behaves as this release of ZooKeeper: "3.8.0" or "3.9.6", the
// default. The package comment lists the differences. It cannot be combined with [LikeKeeper].
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
