package framework

import "github.com/gocurator/curator/internal/gzipped"

// ErrNotCompressed is returned by a client [WithCompression] and by package framework/compressed if
// data are uncompressed or damaged.
var ErrNotCompressed = gzipped.ErrNotCompressed

// decode decompresses the data of a node, if the client compresses.
func (c *Client) decode(path string, data []byte) ([]byte, error) {
	plain, err := c.engine.Decode(data)
	if err != nil {
		return nil, opError("get", path, err)
	}
	return plain, nil
}
