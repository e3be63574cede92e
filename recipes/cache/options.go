package cache

import "github.com/gocurator/curator/internal/opt"

// Option configures a [Cache]. [New] refuses invalid values with [framework.ErrBadArgument].
type Option func(*config) error

type config struct {
	depth       int
	filter      func(path string) bool
	withoutData bool
	onChange    func(Change) // nil: none
}

// WithDepth limits the copy to n levels below the root. The default is no limit.
func WithDepth(n int) Option {
	return opt.Checked(n >= 0, func(c *config) { c.depth = n }, "depth %d, must not be negative", n)
}

// WithFilter omits the nodes below the root for which keep returns false, with their descendants.
// keep must be quick, return the same result for the same path, and not call the cache. By default
// all nodes are kept.
func WithFilter(keep func(path string) bool) Option {
	return opt.Checked(keep != nil, func(c *config) { c.filter = keep }, "nil filter")
}

// WithoutData keeps the stats of nodes but not their data. Data changes are still reported. With
// [WithOnChange], the new data are read and passed to the function.
func WithoutData() Option { return opt.Set(func(c *config) { c.withoutData = true }) }

// WithOnChange calls f after each change of the copy, in order and unmerged, without [Loaded]. When
// [Cache.Sync] returns, f has returned for the changes that Sync waited for.
//
// f runs on the goroutine that follows the tree: it should return soon, and must not close the
// cache. Panics are logged.
func WithOnChange(f func(Change)) Option {
	return opt.Checked(f != nil, func(c *config) { c.onChange = f }, "WithOnChange(nil)")
}
