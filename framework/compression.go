package framework

import "github.com/gocurator/curator/internal/gzipped"

// ErrNotCompressed is returned for uncompressed or damaged data, by a client [WithCompression] and
// by package framework/compressed.
var ErrNotCompressed = gzipped.ErrNotCompressed

// decode decompresses the data of a node, if the client compresses.
func (c *Client) decode(path string, data []byte) ([]byte, error) {
	plain, err := c.engine.Decode(data)
	if err != nil {
		return nil, opError("get", path, err)
	}
	return plain, nil
}
