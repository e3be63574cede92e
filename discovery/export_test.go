package discovery

// Decode is what reads the data of a node.
func Decode[T any](data []byte) (Instance[T], error) { return decode[T](data) }

// Encode is what makes the data of a node.
func Encode[T any](i Instance[T]) ([]byte, error) { return encode(i, config{}) }
