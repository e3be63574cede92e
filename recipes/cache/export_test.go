package cache

// Readers is the number of iterations over changes.
func (c *Cache) Readers() int {
	n := 0
	for range c.nodes.readers.Range {
		n++
	}
	return n
}

// Known is the number of nodes whose values are kept.
func (v *Values[T]) Known() int { return int(v.known.size.Load()) }
