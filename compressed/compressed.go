// Package compressed creates, writes and reads nodes whose data are compressed with gzip, as with compressed() and decompressed()
// of Curator, or with its enableCompression(). Everybody who uses such a node has to know that it is compressed: nothing else
// says so.
//
//	_, err := compressed.Create(ctx, client, "/report", report)
//	report, stat, err := compressed.Get(ctx, client, "/report")
//
// In a stat, DataLength is the length of what is stored. For data that are not compressed the error is [ErrNotCompressed]. All
// functions are safe for concurrent use.
//
// Recipes neither compress nor decompress. In the decoder of a cache's values, use [Decode].
package compressed

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// ErrNotCompressed means that data are not what [Encode] or Java's GzipCompressionProvider makes, or are damaged.
var ErrNotCompressed = errors.New("data are not compressed with gzip")

// maxDecoded bounds how much memory a few bytes of somebody else can take: as much as a reply may have.
const maxDecoded = 256 << 20

// Encode compresses data in the form of Curator's GzipCompressionProvider, for a request of [framework.Client.Multi].
func Encode(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// Decode is the inverse of [Encode], for data from a cache, say. The result is not nil. The error is [ErrNotCompressed], also for
// empty data, and for data that would become larger than 256 MB.
func Decode(data []byte) ([]byte, error) { return decode(data, maxDecoded) }

func decode(data []byte, limit int) ([]byte, error) {
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

// Create is [framework.Client.Create] with data that are compressed, the client's default data as well.
func Create(ctx context.Context, client *framework.Client, path string, data []byte, opts ...framework.CreateOption) (string, error) {
	if data == nil {
		data = client.DefaultData()
	}
	return client.Create(ctx, path, Encode(data), opts...)
}

// Set is [framework.Client.Set] with data that are compressed. nil data are empty data.
func Set(ctx context.Context, client *framework.Client, path string, data []byte, version int32) (*zk.Stat, error) {
	return client.Set(ctx, path, Encode(data), version)
}

// Get is [framework.Client.Get] of data that are compressed. If they are not, the error is [ErrNotCompressed].
func Get(ctx context.Context, client *framework.Client, path string) ([]byte, *zk.Stat, error) {
	data, stat, err := client.Get(ctx, path)
	if err == nil {
		data, err = read(path, data)
	}
	if err != nil {
		return nil, nil, err
	}
	return data, stat, nil
}

// GetW is [framework.Client.GetW] of data that are compressed. If they are not, the error is [ErrNotCompressed], and stat and watch
// are returned with it, for whoever waits for better data.
func GetW(ctx context.Context, client *framework.Client, path string) ([]byte, *zk.Stat, *framework.Watch, error) {
	data, stat, watch, err := client.GetW(ctx, path)
	if err == nil {
		data, err = read(path, data)
	}
	return data, stat, watch, err
}

// read decodes what a get has returned.
func read(path string, data []byte) ([]byte, error) {
	plain, err := Decode(data)
	if err != nil {
		return nil, &framework.OpError{Op: "get", Path: path, Err: err}
	}
	return plain, nil
}
