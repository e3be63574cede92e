package cache

import "github.com/gocurator/curator/framework"

// What tests need to put something between a cache and its client.

type Requests = requests

func Live(client *framework.Client) Requests { return live{client} }

func NewOn(client Requests, path string, opts ...Option) (*Cache, error) {
	return newCache(client, path, opts)
}

// Readers is the number of iterations over changes.
func (c *Cache) Readers() int {
	c.readersMu.Lock()
	defer c.readersMu.Unlock()
	return len(c.readers)
}

// Known is the number of nodes whose values are kept.
func (v *Values[T]) Known() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.known)
}
