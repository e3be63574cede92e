package proto

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrFrameLength is returned for a frame whose length is negative or above the limit.
var ErrFrameLength = errors.New("bad frame length")

// Begin returns a new frame with room for its length. size is the number of bytes that the caller
// expects to append.
func Begin(size int) []byte { return make([]byte, 4, 4+size) }

// Seal writes the frame's length into the room left by [Begin], and returns the frame.
func Seal(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// atOnce is the memory that is allocated for a frame before any of it has arrived: enough for the
// longest data of a node by default.
const atOnce = 1<<20 + 1<<10

// inPlace is the size of a FrameReader's buffer, and of the largest frame that is read in place: a
// list of 200 lock nodes.
const inPlace = 16 << 10

// FrameReader reads frames. Small ones are read in place, others into their own memory. For more
// than 1 MB, that memory grows with the bytes that have arrived, whatever the length says.
type FrameReader struct {
	in      *bufio.Reader
	max     int
	discard int // bytes of the last frame that are still in the buffer
}

// NewFrameReader returns a reader of frames of at most limit bytes.
func NewFrameReader(r io.Reader, limit int) *FrameReader {
	return &FrameReader{in: bufio.NewReaderSize(r, inPlace), max: limit}
}

// Next returns the next frame without its length, valid until the following call. It returns io.EOF
// only if the input ends between two frames. If the length is out of range, the error wraps
// [ErrFrameLength].
func (f *FrameReader) Next() ([]byte, error) {
	if f.discard > 0 {
		_, _ = f.in.Discard(f.discard) // it was peeked
		f.discard = 0
	}
	head, err := f.in.Peek(4)
	if err != nil {
		if len(head) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	n, err := frameLength(head, f.max)
	if err != nil {
		return nil, err
	}
	if 4+n <= f.in.Size() {
		frame, err := f.in.Peek(4 + n)
		if err != nil {
			return nil, unexpected(err)
		}
		f.discard = 4 + n
		return frame[4:], nil
	}
	_, _ = f.in.Discard(4)
	return readBody(f.in, n)
}

// ReadFrame reads one frame of at most limit bytes and returns it without its length. It returns
// the errors of [FrameReader.Next].
func ReadFrame(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n, err := frameLength(head[:], limit)
	if err != nil {
		return nil, err
	}
	return readBody(r, n)
}

func frameLength(head []byte, limit int) (int, error) {
	n := int32(binary.BigEndian.Uint32(head))
	if n < 0 || int64(n) > int64(limit) {
		return 0, fmt.Errorf("%w: %d", ErrFrameLength, n)
	}
	return int(n), nil
}

// Owned reports whether the last frame has its own memory, which the reader does not reuse.
func (f *FrameReader) Owned() bool { return f.discard == 0 }

// readBody reads n bytes.
func readBody(r io.Reader, n int) ([]byte, error) {
	body := make([]byte, 0, min(n, atOnce))
	for len(body) < n {
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(n, 2*cap(body)))
			copy(grown, body)
			body = grown
		}
		got, err := io.ReadFull(r, body[len(body):cap(body)])
		body = body[:len(body)+got]
		if err != nil {
			return nil, unexpected(err)
		}
	}
	return body, nil
}

// unexpected converts an error in the middle of a frame.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
