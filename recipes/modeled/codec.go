package modeled

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/gocurator/curator/framework/compressed"
	"github.com/gocurator/curator/internal/gzipped"
)

// Codec encodes and decodes values. Its methods must be safe for concurrent use. Encode must not
// return empty data.
type Codec[T any] interface {
	Encode(v T) ([]byte, error)
	Decode(data []byte) (T, error)
}

// JSON encodes values as JSON. Decode ignores unknown fields, a byte order mark and trailing text.
// JSON refuses null in both directions, so a nil pointer, map or slice is not a value.
type JSON[T any] struct{}

var errNull = errors.New("null is not a value")

// Encode returns v as JSON without a trailing newline, and does not escape <, > and &.
func (JSON[T]) Encode(v T) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	data := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if string(data) == "null" {
		return nil, errNull
	}
	return data, nil
}

// Decode decodes the JSON value at the beginning of data. It returns an error for null.
func (JSON[T]) Decode(data []byte) (v T, err error) {
	var raw json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff")))).Decode(&raw); err != nil {
		return v, err
	}
	if string(raw) == "null" {
		return v, errNull
	}
	err = json.Unmarshal(raw, &v)
	return v, err
}

// Compressed returns a codec that compresses the data of codec with gzip, in the format of Java's
// GzipCompressionProvider. Decode returns an error for uncompressed data. On a client with
// [framework.WithCompression] values are compressed once, with this codec and without it.
//
// Data of more than 16 MB are neither encoded nor decoded: the error wraps [framework.ErrTooLarge].
// For the values of [New] the client's limit applies: see [framework.WithMaxDecompressed].
func Compressed[T any](codec Codec[T]) Codec[T] {
	if codec == nil {
		return nil // WithCodec refuses it
	}
	pack := func(data []byte) ([]byte, error) { return gzipped.Encode(data, gzipped.MaxDecoded) }
	return packed[T]{codec, pack, compressed.Decode}
}

// packed is a codec that compresses data.
type packed[T any] struct {
	codec        Codec[T]
	pack, unpack func(data []byte) ([]byte, error)
}

func (p packed[T]) Encode(v T) ([]byte, error) {
	data, err := p.codec.Encode(v)
	if err != nil {
		return nil, err
	}
	return p.pack(data)
}

func (p packed[T]) Decode(data []byte) (v T, err error) {
	plain, err := p.unpack(data)
	if err != nil {
		return v, err
	}
	return p.codec.Decode(plain)
}
