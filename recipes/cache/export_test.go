package cache

// What tests need to put something between a cache and its client.

type Requests = requests

func NewOn(client Requests, path string, opts ...Option) (*Cache, error) {
	return newCache(client, path, opts)
}

// Readers is the number of iterations over changes.
func (c *Cache) Readers() int {
	c.readersMu.Lock()
	defer c.readersMu.Unlock()
	return len(c.readers)
}
