package wire_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

func TestReadLines(t *testing.T) {
	long := `"` + strings.Repeat("a", 200_000) + `"` // of several buffers
	broken := errors.New("broken pipe")
	for _, tt := range []struct {
		name string
		in   io.Reader
		want []string
		err  string
	}{
		{"frames", strings.NewReader("{}\n [] \r\n\n\t\n1"), []string{"{}", "[]", "1"}, ""},
		{"nothing", strings.NewReader(""), nil, ""},
		{"byte by byte", iotest.OneByteReader(strings.NewReader(long + "\n2\n")), []string{long, "2"}, ""},
		{"as large as may be", strings.NewReader("1\n" + strings.Repeat("a", 299_999) + "\n"), []string{"1", strings.Repeat("a", 299_999)}, ""},
		{"too large", strings.NewReader("1\n" + strings.Repeat("a", 300_001) + "\n2\n"), []string{"1"}, "standard input: a message is larger than 300000 bytes"},
		{"broken", io.MultiReader(strings.NewReader("1\n2"), iotest.ErrReader(broken)), []string{"1", "2"}, "broken pipe"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, failed := make(chan []byte), make(chan error, 1)
			go wire.ReadLines(t.Context(), tt.in, 300_000, lines, failed)
			var got []string
			for {
				select {
				case line := <-lines:
					got = append(got, string(line))
					continue
				case err := <-failed:
					if text := errorText(err); text != tt.err || !slices.Equal(got, tt.want) {
						t.Errorf("%d frames and %q, want %d and %q", len(got), text, len(tt.want), tt.err)
					}
				}
				return
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestReadLinesEnds: the context ends while a frame is not received.
func TestReadLinesEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wire.ReadLines(ctx, strings.NewReader("1\n2\n"), 10, make(chan []byte), make(chan error, 1))
	}()
	cancel()
	<-ended
}
