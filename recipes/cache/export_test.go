package cache

import "github.com/gocurator/curator/internal/engine"

// StandardWatches is [engine.StandardWatches].
func StandardWatches() Option { return engine.StandardWatches.(Option) }

// Readers is the number of iterations over changes.
func (c *Cache) Readers() int {
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	return len(c.feed.readers)
}

// Known is the number of nodes whose values are kept.
func (v *Values[T]) Known() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.known)
}
