// Package compressed creates, writes and reads nodes whose data are compressed with gzip. It is
// Curator's compressed() and decompressed(). A stored node does not show whether its data are
// compressed, so every reader must know.
//
//	_, err := compressed.Create(ctx, client, "/report", report)
//	report, stat, err := compressed.Get(ctx, client, "/report")
//
// In a stat, DataLength is the length of the compressed data. Data of more than 16 MB are neither
// written nor read: see [framework.WithMaxDecompressed]. All functions are safe for concurrent use.
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

// Decode decompresses data that [Encode] or Java has compressed. The result is never nil.
//
// Errors are
//   - [framework.ErrNotCompressed] if data are empty or not compressed;
//   - [framework.ErrTooLarge] if they are longer than 16 MB when decompressed.
func Decode(data []byte) ([]byte, error) { return gzipped.Decode(data, gzipped.MaxDecoded) }

// Create creates a node with compressed data and returns its path, which differs from path if the
// node is sequential or protected. For nil data it stores the client's default data, as Java's
// create().compressed() does: see [framework.WithDefaultData].
//
// Errors are
//   - [framework.ErrTooLarge] if data are longer than [framework.WithMaxDecompressed] allows;
//   - zk.ErrNodeExists if the node exists;
//   - zk.ErrNoNode if a parent is missing and neither [framework.ContainerParents] nor
//     [framework.PersistentParents] is given;
//   - zk.ErrNoAuth if the client is not permitted to create children of the parent;
//   - zk.ErrNoChildrenForEphemerals if the parent is ephemeral;
//   - zk.ErrInvalidACL if the server refuses the ACL;
//   - [framework.ErrUnimplemented] if the server does not support containers, TTL nodes or
//     [framework.StatTo];
//   - [framework.ErrBadArgument] if an option is invalid, or options cannot be combined;
//   - [framework.ErrTooLong] if the request with the compressed data is longer than
//     [framework.WithMaxRequest] allows;
//   - [framework.ErrBadPath] if path is invalid;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired] or
//     [framework.ErrQuotaExceeded].
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

// Set replaces a node's data with compressed data, and returns the new stat. nil is empty data.
//
// Errors are
//   - [framework.ErrTooLarge] if data are longer than [framework.WithMaxDecompressed] allows;
//   - zk.ErrNoNode if the node does not exist;
//   - zk.ErrBadVersion if the node's data do not have the version of [framework.IfVersion];
//   - zk.ErrNoAuth if the client is not permitted to write the node;
//   - [framework.ErrBadArgument] if an option is invalid;
//   - [framework.ErrTooLong] if the request with the compressed data is longer than
//     [framework.WithMaxRequest] allows;
//   - [framework.ErrBadPath] if path is invalid;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired] or
//     [framework.ErrQuotaExceeded].
func Set(ctx context.Context, client *framework.Client, path string, data []byte, opts ...framework.SetOption) (*zk.Stat, error) {
	data, err := encodeFor(client, data)
	if err != nil {
		return nil, &framework.OpError{Op: "set", Path: path, Err: err}
	}
	return client.Set(ctx, path, data, opts...)
}

// Get returns a node's decompressed data and its stat.
//
// Errors are
//   - [framework.ErrNotCompressed] if the data are not compressed;
//   - [framework.ErrTooLarge] if the data exceed the limit of [framework.WithMaxDecompressed];
//   - zk.ErrNoNode if the node does not exist;
//   - zk.ErrNoAuth if the client is not permitted to read the node;
//   - [framework.ErrBadPath] if path is invalid;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired].
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

// GetW returns a node's decompressed data and its stat, and sets a watch for the node's next write
// or deletion.
//
// Errors are
//   - [framework.ErrNotCompressed] if the data are not compressed: stat and watch are valid;
//   - [framework.ErrTooLarge] if the data exceed the limit of [framework.WithMaxDecompressed]:
//     stat and watch are valid;
//   - zk.ErrNoNode if the node does not exist: no watch is set then;
//   - zk.ErrNoAuth if the client is not permitted to read the node;
//   - [framework.ErrBadPath] if path is invalid;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired].
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
