package cache

import "github.com/gocurator/curator/internal/opt"

// Option configures a [Cache]. [New] refuses bad values with [framework.ErrBadArgument].
type Option func(*config) error

type config struct {
	depth       int
	filter      func(path string) bool
	withoutData bool
	onChange    func(Change) // nil: nobody is called
}

// WithDepth limits the copy to n levels below the root, at least 0: 1 is the root and its children. The default is no limit.
func WithDepth(n int) Option {
	return opt.Checked(n >= 0, func(c *config) { c.depth = n }, "depth %d", n)
}

// WithFilter leaves out the nodes below the root for which keep returns false, and everything below them. keep must be quick, must
// always give the same answer for a path, and must not call the cache. The default keeps all.
func WithFilter(keep func(path string) bool) Option {
	return opt.Checked(keep != nil, func(c *config) { c.filter = keep }, "nil filter")
}

// WithoutData keeps the stats of nodes, and not their data, which are only read for [OnChange]: Data is nil. Changes of data are reported.
//
// Nodes that the client may not read are left out, as with data. But servers before 3.8.4 and 3.9.2 give the stat to everybody: with a
// persistent watch such a cache shows them as well if they had no children when their stat was read.
func WithoutData() Option { return opt.Set(func(c *config) { c.withoutData = true }) }

// OnChange calls f with each change of the copy, in order, after it was made: all that [Cache.Changes] reports, but one after the
// other, nothing merged, and without [Loaded]. When [Cache.Sync] returns, f has returned for all that Sync has waited for. f is called
// by the goroutine that follows the tree, not under a lock. It should return soon, and must not close the cache. A panic is logged.
//
// With [WithoutData], New has the data that were read. They are dropped when f has returned, to save memory.
func OnChange(f func(Change)) Option {
	return opt.Checked(f != nil, func(c *config) { c.onChange = f }, "OnChange(nil)")
}
