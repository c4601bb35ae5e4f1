package isolate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
)

// frames sends and receives frames over a pair of pipes, each after its length in four bytes.
type frames struct {
	in  io.Reader // buffered: a short frame is one read
	out io.Writer

	sending sync.Mutex
}

// joined is the size of frames that are copied into one write, in bytes.
const joined = 64 << 10

// Send writes one frame.
func (f *frames) Send(parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size > math.MaxUint32 {
		return errors.New("a frame of more than 4 GiB")
	}
	head := binary.BigEndian.AppendUint32(make([]byte, 0, 4+min(size, joined)), uint32(size))
	if size <= joined {
		for _, p := range parts {
			head = append(head, p...)
		}
		parts = nil
	}
	f.sending.Lock()
	defer f.sending.Unlock()
	if _, err := f.out.Write(head); err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := f.out.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// firstRead is the buffer that is allocated before any of a frame has arrived, in bytes.
const firstRead = 64 << 10

// receive reads the next frame, of at most most bytes. The buffer grows as the frame arrives: a large length alone
// allocates nothing.
func (f *frames) receive(most int64) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(f.in, head[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size > most {
		return nil, &tooLong{size, most}
	}
	frame := make([]byte, min(size, firstRead))
	for done := int64(0); ; {
		n, err := io.ReadFull(f.in, frame[done:])
		if done += int64(n); err != nil {
			return nil, io.ErrUnexpectedEOF
		}
		if done == size {
			return frame, nil
		}
		larger := make([]byte, min(size, 2*done))
		copy(larger, frame)
		frame = larger
	}
}

// tooLong is the error for a frame that exceeds its bound; it is not read.
type tooLong struct{ size, most int64 }

func (e *tooLong) Error() string {
	return fmt.Sprintf("it sent a frame of %d bytes where it may send %d", e.size, e.most)
}
