package proto

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrFrameLength means that a frame's length prefix is negative or above the limit.
var ErrFrameLength = errors.New("bad frame length")

// Begin returns a new frame with room for its length, for records to be appended to. size is how
// many bytes are expected to be appended.
func Begin(size int) []byte { return make([]byte, 4, 4+size) }

// Seal writes the frame's length into the room that [Begin] left, and returns the frame.
func Seal(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// step is how much memory is taken for a frame before any of it has arrived.
const step = 64 << 10

// inPlace is the size of a FrameReader's buffer, and of the largest frame that is read in place: a list of 200 lock
// nodes.
const inPlace = 16 << 10

// FrameReader reads frames. Small ones are read in place; the memory for a large one grows with
// what has arrived, whatever its length prefix says.
type FrameReader struct {
	in      *bufio.Reader
	max     int
	discard int // bytes of the last frame that are still in the buffer
}

// NewFrameReader returns a reader of frames of at most limit bytes.
func NewFrameReader(r io.Reader, limit int) *FrameReader {
	return &FrameReader{in: bufio.NewReaderSize(r, inPlace), max: limit}
}

// Next returns the next frame without its length. It is valid until the following call. The error is
// io.EOF only if the input ends between two frames, and wraps [ErrFrameLength] if a length is out of range.
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

// ReadFrame reads one frame of at most limit bytes and returns it without its length. The
// errors are those of [FrameReader.Next].
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

// readBody reads n bytes.
func readBody(r io.Reader, n int) ([]byte, error) {
	body := make([]byte, 0, min(n, step))
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

// unexpected is err in the middle of a frame.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
