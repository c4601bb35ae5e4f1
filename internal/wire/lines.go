package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// ReadLines sends the frames of in, one per line, to lines, trimmed and without empty lines. At its end
// it sends one value to failed, which must have room for it: nil at the end of in, or an error, such as
// for a line of more than most bytes. When ctx ends it returns at the next frame, because a read from a
// pipe cannot be interrupted.
func ReadLines(ctx context.Context, in io.Reader, most int, lines chan<- []byte, failed chan<- error) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(r, most)
		if line = bytes.TrimSpace(line); len(line) > 0 {
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			failed <- err
			return
		}
	}
}

func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > most {
			return nil, fmt.Errorf("standard input: a message is larger than %d bytes", most)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
