package discovery

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/recipes/cache"
)

// Decode is what reads the data of the node /services/orders/1.
func Decode[T any](data []byte) (Instance[T], error) {
	i, found, err := decode[T]("orders", "/services/orders/1", data, new(zk.Stat))
	if !found && err == nil {
		err = errors.New("no instance")
	}
	return i, err
}

// Encode is what makes the data of a node.
func Encode[T any](i Instance[T]) ([]byte, error) { return encode(i, config{}) }

// Known is how many instances a Watch has in memory.
func (w *Watch[T]) Known() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.known)
}

// Read reports whether the node at path has been read.
func (w *Watch[T]) Read(path string) (cache.Node, bool) { return w.cache.Get(path) }
