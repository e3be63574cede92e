// Package gzipped compresses the data of nodes in the format of Curator's GzipCompressionProvider.
package gzipped

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// ErrNotCompressed is returned for data that neither [Encode] nor Java has compressed.
var ErrNotCompressed = errors.New("data is not gzip-compressed")

// MaxDecoded bounds the memory that a few bytes of another client can take. It is the size of the
// largest reply.
const MaxDecoded = 256 << 20

// Encode compresses data.
func Encode(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// Decode decompresses data. The result is not nil, and has at most limit bytes.
func Decode(data []byte, limit int) ([]byte, error) {
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
		return nil, fmt.Errorf("%w: more than %d bytes when decompressed", ErrNotCompressed, limit)
	case rest.Len() > 0:
		return nil, fmt.Errorf("%w: %d bytes after the end", ErrNotCompressed, rest.Len())
	}
	return plain, nil
}
