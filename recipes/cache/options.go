package cache

import (
	"fmt"

	"github.com/gocurator/curator/framework"
)

// Option configures a [Cache]. [New] refuses bad values with [framework.ErrBadArgument].
type Option func(*config) error

type config struct {
	depth       int // -1: no limit
	filter      func(path string) bool
	withoutData bool
	concurrency int
	oneShot     bool
}

func defaults() config { return config{depth: -1, concurrency: 64} }

// Depth limits the copy to n levels below the root of the cache: 0 is the root alone, 1 the root and its
// children. n must not be negative. The default is no limit.
func Depth(n int) Option {
	return func(c *config) error {
		if n < 0 {
			return fmt.Errorf("%w: depth %d", framework.ErrBadArgument, n)
		}
		c.depth = n
		return nil
	}
}

// Filter leaves out the nodes below the root for which keep returns false, and everything below them. keep must
// be quick, must always give the same answer for a path, and must not call the cache. The default keeps all.
func Filter(keep func(path string) bool) Option {
	return func(c *config) error {
		if keep == nil {
			return fmt.Errorf("%w: nil filter", framework.ErrBadArgument)
		}
		c.filter = keep
		return nil
	}
}

// WithoutData keeps the stats of nodes, and not their data: Data is nil. Changes of data are still told.
//
// Such a cache also shows nodes that the client may not read: with a persistent watch if they had no children when
// their stat was read, with standard watches those at the limit of [Depth]. Servers from
// 3.8.4 on do not tell of their deletion, so they may stay in the cache until the next connection.
func WithoutData() Option {
	return func(c *config) error {
		c.withoutData = true
		return nil
	}
}

// Concurrency limits how many requests of the cache are under way at a time. n must be positive. The
// default is 64.
func Concurrency(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("%w: concurrency %d", framework.ErrBadArgument, n)
		}
		c.concurrency = n
		return nil
	}
}

// StandardWatches makes the cache use standard watches, two for each node, also where the server has persistent
// ones. They take about 2 kB of memory for each node. The default is to use them only where nothing else works.
func StandardWatches() Option {
	return func(c *config) error {
		c.oneShot = true
		return nil
	}
}
