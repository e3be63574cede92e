// Package compressed creates, writes and reads nodes whose data are compressed with gzip, as by
// compressed() and decompressed() of Curator, or by its enableCompression(). A stored node does not
// show whether its data are compressed, so every reader must know.
//
//	_, err := compressed.Create(ctx, client, "/report", report)
//	report, stat, err := compressed.Get(ctx, client, "/report")
//
// In a stat, DataLength is the length of the compressed data. Uncompressed data fail with
// [framework.ErrNotCompressed], and data of more than 16 MB with [framework.ErrTooLarge] (see
// [framework.WithMaxDecompressed]). All functions are safe for concurrent use.
//
// Recipes neither compress nor decompress, unless the client does: see [framework.WithCompression].
// With such a client [Create], [Set], [Get] and [GetW] do not compress a second time. To decode the
// values of a cache, use [Decode].
package compressed

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/gzipped"
)

// Encode compresses data in the format of Curator's GzipCompressionProvider. Use it for requests of
// [framework.Client.Multi], but not with a client [framework.WithCompression], which compresses
// them itself.
func Encode(data []byte) []byte {
	packed, _ := gzipped.Encode(data, len(data)) // no other error is possible
	return packed
}

// Decode is the inverse of [Encode]. The result is never nil. It returns
// [framework.ErrNotCompressed] if data are empty or not compressed, and [framework.ErrTooLarge] if
// they are longer than 16 MB when decompressed.
func Decode(data []byte) ([]byte, error) { return gzipped.Decode(data, gzipped.MaxDecoded) }

// Create is [framework.Client.Create] with compressed data. For nil data it stores the client's
// default data, as Java's create().compressed() does: see [framework.WithDefaultData].
func Create(ctx context.Context, client *framework.Client, path string, data []byte, opts ...framework.CreateOption) (string, error) {
	if data == nil {
		data = engine.Of(client).DefaultData()
	}
	data, err := encodeFor(client, data)
	if err != nil {
		return "", &framework.OpError{Op: "create", Path: path, Err: err}
	}
	return client.Create(ctx, path, data, opts...)
}

// Set is [framework.Client.Set] with compressed data. It treats nil as empty data.
func Set(ctx context.Context, client *framework.Client, path string, data []byte, opts ...framework.SetOption) (*zk.Stat, error) {
	data, err := encodeFor(client, data)
	if err != nil {
		return nil, &framework.OpError{Op: "set", Path: path, Err: err}
	}
	return client.Set(ctx, path, data, opts...)
}

// Get returns a node's decompressed data and its stat. If the data are not compressed, it returns
// [framework.ErrNotCompressed].
func Get(ctx context.Context, client *framework.Client, path string) ([]byte, *zk.Stat, error) {
	data, stat, err := client.Get(ctx, path)
	if err == nil {
		data, err = read(client, path, data)
	}
	if err != nil {
		return nil, nil, err
	}
	return data, stat, nil
}

// GetW is [framework.Client.GetW] of compressed data. If it returns [framework.ErrNotCompressed],
// stat and watch are valid.
func GetW(ctx context.Context, client *framework.Client, path string) ([]byte, *zk.Stat, *framework.Watch, error) {
	data, stat, watch, err := client.GetW(ctx, path)
	if err == nil {
		data, err = read(client, path, data)
	}
	return data, stat, watch, err
}

// encodeFor compresses data, unless the client itself does: see [framework.WithCompression].
func encodeFor(client *framework.Client, data []byte) ([]byte, error) {
	if engine.Of(client).Compresses() {
		return data, nil
	}
	return engine.Of(client).Compress(data)
}

// read decodes the data of a node, unless the client has done so.
func read(client *framework.Client, path string, data []byte) ([]byte, error) {
	if engine.Of(client).Compresses() {
		return data, nil
	}
	plain, err := engine.Of(client).Decompress(data)
	if err != nil {
		return nil, &framework.OpError{Op: "get", Path: path, Err: err}
	}
	return plain, nil
}
