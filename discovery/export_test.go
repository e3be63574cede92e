package discovery

import (
	"cmp"
	"errors"

	"github.com/go-zookeeper/zk"
)

// Decode is what reads the data of the node /services/orders/1.
func Decode[T any](data []byte) (Instance[T], error) {
	i, err := decode[T](Curator, "orders", "/services/orders/1", data, new(zk.Stat))
	if i == nil {
		return Instance[T]{}, cmp.Or(err, errors.New("no instance"))
	}
	return *i, nil
}

// Encode is what makes the data of a node.
func Encode[T any](i Instance[T]) ([]byte, error) { return encode(i, config{enabledField: i.Disabled}) }

// JavaHost is what refuses hosts that Java does not find in a URI.
var JavaHost = javaHost

// JavaURI is what refuses URIs that Java cannot read.
var JavaURI = javaURI
