package zktest

import (
	"fmt"

	"github.com/gocurator/curator/zktest/internal/tree"
)

// WithVersion starts a server that behaves as this release of ZooKeeper does: "3.8.0" or "3.9.6",
// which is the default. The package comment lists the differences. With [LikeKeeper] it is an
// error.
func WithVersion(name string) Option {
	return func(c *config) error {
		for v, other := range tree.VersionNames {
			if other == name {
				c.Version = v
				return nil
			}
		}
		return fmt.Errorf("zktest: no version %q: 3.8.0 and 3.9.6 are known", name)
	}
}
