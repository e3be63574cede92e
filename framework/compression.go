package framework

import "github.com/gocurator/curator/internal/gzipped"

// Errors of a client [WithCompression] and of package framework/compressed.
var (
	// ErrNotCompressed is returned if data are uncompressed or damaged.
	ErrNotCompressed = gzipped.ErrNotCompressed

	// ErrTooLarge is returned if data exceed the limit of [WithMaxDecompressed]. It wraps
	// ErrNotCompressed, so that a reader that skips unusable data needs one check.
	ErrTooLarge = gzipped.ErrTooLarge
)

// decode decompresses the data of a node, if the client compresses.
func (c *Client) decode(path string, data []byte) ([]byte, error) {
	plain, err := c.engine.Decode(data)
	if err != nil {
		return nil, opError("get", path, err)
	}
	return plain, nil
}
