package cache

import (
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
)

// Option configures a [Cache]. [New] refuses bad values with [framework.ErrBadArgument].
type Option func(*config) error

type config struct {
	depth       int // -1: no limit
	filter      func(path string) bool
	withoutData bool
	standard    bool // see [engine.StandardWatches]
}

func init() {
	engine.StandardWatches = Option(func(c *config) error {
		c.standard = true
		return nil
	})
}

// WithDepth limits the copy to n levels below the root of the cache: 0 is the root alone, 1 the root and its
// children. n must not be negative. The default is no limit.
func WithDepth(n int) Option {
	return func(c *config) error {
		if n < 0 {
			return fmt.Errorf("%w: depth %d", framework.ErrBadArgument, n)
		}
		c.depth = n
		return nil
	}
}

// WithFilter leaves out the nodes below the root for which keep returns false, and everything below them. keep must
// be quick, must always give the same answer for a path, and must not call the cache. The default keeps all.
func WithFilter(keep func(path string) bool) Option {
	return func(c *config) error {
		if keep == nil {
			return fmt.Errorf("%w: nil filter", framework.ErrBadArgument)
		}
		c.filter = keep
		return nil
	}
}

// WithoutData keeps the stats of nodes, and not their data: Data is nil. Changes of data are still reported.
//
// Nodes that the client may not read are left out, for servers from 3.8.4 and 3.9.2 on do not give their stat. Before, such
// a cache shows them, too: with a persistent watch if they had no children when their stat was read, with standard watches those at the
// limit of [WithDepth].
func WithoutData() Option {
	return func(c *config) error {
		c.withoutData = true
		return nil
	}
}
