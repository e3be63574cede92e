package engine

import "github.com/gocurator/curator/internal/gzipped"

// Encode returns the data to send, compressed if the client compresses. Only data of callers are
// compressed: missing parents, which the engine creates, have no data. It returns
// [gzipped.ErrTooLarge] if the client could not decode the data.
func (c Client) Encode(data []byte) ([]byte, error) {
	if !c.Compresses() {
		return data, nil
	}
	return c.Compress(data)
}

// Decode is the inverse of Encode. It returns [gzipped.ErrNotCompressed] if the data are not
// compressed. It may take as long as compressed data take: it must not be called on a connection's
// goroutine, on which heartbeats are answered.
func (c Client) Decode(data []byte) ([]byte, error) {
	if !c.Compresses() {
		return data, nil
	}
	return c.Decompress(data)
}

// Compresses reports whether the client compresses all data.
func (c Client) Compresses() bool { return c.cfg.Compress && !c.plain }

// Compress compresses data, within the client's limit.
func (c Client) Compress(data []byte) ([]byte, error) { return gzipped.Encode(data, c.cfg.MaxDecoded) }

// Decompress is the inverse of Compress.
func (c Client) Decompress(data []byte) ([]byte, error) {
	return gzipped.Decode(data, c.cfg.MaxDecoded)
}

// Decode decodes the data that a read of the link has passed to its done. Unlike [Client.Decode],
// it accepts a node without data, because caches include parents, which have no data.
func (l Link) Decode(data []byte) ([]byte, error) {
	if len(data) == 0 {
		return data, nil
	}
	return l.client.Decode(data)
}
