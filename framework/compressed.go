package framework

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-zookeeper/zk"
)

// ErrNotCompressed means that data are not what [Compress] or Java's GzipCompressionProvider makes, or are damaged.
var ErrNotCompressed = errors.New("data are not compressed with gzip")

// maxDecompressed bounds how much memory a few bytes of somebody else can take: as much as a reply may have.
const maxDecompressed = 256 << 20

// Compress returns data in the form of Curator's GzipCompressionProvider, for a request of [Client.Multi].
func Compress(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// Decompress is the inverse of [Compress], for data from a cache, say. The result is not nil. The error is [ErrNotCompressed], also for
// empty data, and for data that would become larger than 256 MB.
func Decompress(data []byte) ([]byte, error) { return decompress(data, maxDecompressed) }

func decompress(data []byte, limit int) ([]byte, error) {
	rest := bytes.NewReader(data)
	r, err := gzip.NewReader(rest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotCompressed, err)
	}
	r.Multistream(false) // Java refuses what follows, too
	plain, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNotCompressed, err)
	case len(plain) > limit:
		return nil, fmt.Errorf("%w: they would become larger than %d bytes", ErrNotCompressed, limit)
	case rest.Len() > 0:
		return nil, fmt.Errorf("%w: %d bytes follow", ErrNotCompressed, rest.Len())
	}
	return plain, nil
}

// Compressed is a view of a client for nodes whose data are compressed with gzip, as with compressed() and decompressed() of
// Curator, or with its enableCompression(). Everybody who reads or writes such a node has to know that it is compressed: nothing else says so.
// In a stat, DataLength is the length of what is stored.
//
// Recipes know nothing of it. In the decoder of a cache's values, use [Decompress].
//
// All methods are safe for concurrent use.
type Compressed struct{ client *Client }

// Compressed returns a view of the client for nodes whose data are compressed, on the same session and in the same namespace.
func (c *Client) Compressed() Compressed { return Compressed{c} }

// Create is [Client.Create] with data that are compressed, the client's default data as well.
func (v Compressed) Create(ctx context.Context, path string, data []byte, opts ...CreateOption) (string, error) {
	return v.client.Create(ctx, path, Compress(v.client.orDefault(data)), opts...)
}

// Set is [Client.Set] with data that are compressed. nil data are empty data.
func (v Compressed) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return v.client.Set(ctx, path, Compress(data), version)
}

// Get is [Client.Get] of data that are compressed. If they are not, the error is [ErrNotCompressed].
func (v Compressed) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	data, stat, err := v.client.Get(ctx, path)
	if err == nil {
		data, err = decompressed(path, data)
	}
	if err != nil {
		return nil, nil, err
	}
	return data, stat, nil
}

// GetW is [Client.GetW] of data that are compressed. If they are not, the error is [ErrNotCompressed], and stat and watch are returned with it,
// for whoever waits for better data.
func (v Compressed) GetW(ctx context.Context, path string) ([]byte, *zk.Stat, *Watch, error) {
	data, stat, watch, err := v.client.GetW(ctx, path)
	if err == nil {
		data, err = decompressed(path, data)
	}
	return data, stat, watch, err
}

func decompressed(path string, data []byte) ([]byte, error) {
	data, err := Decompress(data)
	return data, opError("get", path, err)
}
