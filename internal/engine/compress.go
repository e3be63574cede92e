package engine

import (
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/gzipped"
)

// Encode returns the data to send, compressed if the client compresses. Only data of callers are
// compressed: missing parents, which the engine creates, have no data.
func (c Client) Encode(data []byte) []byte {
	if !c.Compresses() {
		return data
	}
	return gzipped.Encode(data)
}

// Decode is the inverse of Encode. It returns [gzipped.ErrNotCompressed] if the data are not
// compressed.
func (c Client) Decode(data []byte) ([]byte, error) {
	if !c.Compresses() {
		return data, nil
	}
	return gzipped.Decode(data, gzipped.MaxDecoded)
}

// Compresses reports whether the client compresses all data.
func (c Client) Compresses() bool { return c.cfg.Compress && !c.plain }

// decoded passes the result of a read to done, with decoded data. Unlike Decode, it accepts a node
// without data, because caches include parents, which have no data.
func (c Client) decoded(data []byte, stat *zk.Stat, err error, done func([]byte, *zk.Stat, error)) {
	if err == nil && len(data) > 0 {
		data, err = c.Decode(data)
	}
	done(data, stat, err)
}
