// Package gzipped compresses the data of nodes in the format of Curator's GzipCompressionProvider.
package gzipped

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrNotCompressed is returned for data that neither [Encode] nor Java has compressed. It wraps no
// error of package gzip: an io.EOF counts as a lost connection, after which a request is retried.
var ErrNotCompressed = errors.New("data is not gzip-compressed")

// ErrTooLarge is returned for data that exceed a limit when decompressed. It wraps
// [ErrNotCompressed]: a reader that skips data of that kind skips these, too.
var ErrTooLarge error = tooLarge{}

type tooLarge struct{}

func (tooLarge) Error() string { return "decompressed data is too large" }
func (tooLarge) Unwrap() error { return ErrNotCompressed }

// MaxDecoded is the default limit of decompressed data: 16 times the longest request that a server
// accepts by default. It bounds the memory that one node of another client can take.
const MaxDecoded = 16 << 20

// Encode compresses data. It returns [ErrTooLarge] if data has more than limit bytes.
func Encode(data []byte, limit int) ([]byte, error) {
	if len(data) > limit {
		return nil, exceeds(limit)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data) // a buffer takes everything
	_ = w.Close()
	return b.Bytes(), nil
}

// Decode decompresses data. The result is not nil, and has at most limit bytes.
func Decode(data []byte, limit int) ([]byte, error) {
	rest := bytes.NewReader(data)
	r, err := gzip.NewReader(rest)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrNotCompressed, err)
	}
	r.Multistream(false) // Java refuses what follows, too
	size := claimed(data)
	if size > limit {
		return nil, exceeds(limit)
	}
	plain := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err = plain.ReadFrom(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %v", ErrNotCompressed, err)
	case plain.Len() > limit:
		return nil, exceeds(limit)
	case rest.Len() > 0:
		return nil, fmt.Errorf("%w: %d bytes after the end", ErrNotCompressed, rest.Len())
	}
	return plain.Bytes(), nil
}

// claimed returns the length of the decompressed data, as the last four bytes say. They may be
// wrong: the decoder compares them at the end.
func claimed(data []byte) int {
	const trailer = 4
	if len(data) < trailer {
		return 0
	}
	return int(binary.LittleEndian.Uint32(data[len(data)-trailer:]))
}

func exceeds(limit int) error { return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit) }
