package conn_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// call is a call with a streamed result.
type call struct{ finished int }

func (c *call) Broken(err error) error    { return fmt.Errorf("broken: %w", err) }
func (c *call) Malformed(err error) error { return fmt.Errorf("malformed: %w", err) }
func (c *call) Finish()                   { c.finished++ }

// streamed returns a response whose result begins in a small buffer and continues in rest.
func streamed(t *testing.T, c *call, rest io.Reader) *conn.Response {
	_, clock := conn.Start(t.Context(), time.Minute, errors.New("late"))
	held := conn.Grab(conn.Small)
	n := copy(held.B, `{"result":{"a":1,`)
	start, ok := wire.SkimResult(held.B[:n])
	if !ok {
		t.Fatal("no result")
	}
	return &conn.Response{Body: conn.NewStream(c, clock, io.NopCloser(rest), held, start, n)}
}

func TestStream(t *testing.T) {
	long := strings.Repeat("x", 3*conn.Small)
	for _, tt := range []struct {
		name, rest string
		edit       jsonscan.Edit
		want, err  string
	}{
		{name: "whole", rest: `"b":"` + long + `"},"id":1}`, want: `{"a":1,"b":"` + long + `"}`},
		{name: "edited", rest: `"b":2},"id":1}`, want: `{"b":2}`, edit: jsonscan.Edit{Decide: func(key string) jsonscan.Decision {
			if key == "a" {
				return jsonscan.Drop
			}
			return jsonscan.Keep
		}}},
		{name: "ends early", rest: `"b":`, want: `{"a":1,"b":`, err: "broken: unexpected EOF"},
		{name: "cannot be edited", rest: strings.Repeat(" ", 100<<10) + `"b":2}}`, err: "malformed: ", edit: jsonscan.Edit{Decide: func(string) jsonscan.Decision { return jsonscan.Keep }}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &call{}
			r := streamed(t, c, iotest.HalfReader(strings.NewReader(tt.rest)))
			r.Edit(tt.edit)
			var got bytes.Buffer
			_, err := r.Body.WriteTo(&got)
			if tt.err == "" && (err != nil || got.String() != tt.want) || tt.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.err)) {
				t.Errorf("WriteTo passed on %.60q, %v\nwant %.60q, %s", got.String(), err, tt.want, tt.err)
			}
			r.Close()
			r.Close()
			if c.finished != 1 {
				t.Errorf("the call was finished %d times", c.finished)
			}
		})
	}
}

// TestHold: a streamed result can be read whole, up to a limit.
func TestHold(t *testing.T) {
	c, closed := &call{}, 0
	r := streamed(t, c, strings.NewReader(`"b":2},"id":1}`))
	r.OnClose(func() { closed++ })
	if err := r.ReadAll(100); err != nil || string(r.Result) != `{"a":1,"b":2}` || r.Body != nil || c.finished != 1 || closed != 1 {
		t.Errorf("Hold: %v, result %s, finished %d, closed %d", err, r.Result, c.finished, closed)
	}
	r = streamed(t, c, strings.NewReader(`"b":2},"id":1}`))
	defer r.Close()
	if err := r.ReadAll(5); !errors.Is(err, conn.ErrTooLarge) {
		t.Errorf("Hold of too little: %v", err)
	}
}

// TestReadHead: a short body is read whole; of a long one the beginning, as soon as the result is in it.
func TestReadHead(t *testing.T) {
	for _, size := range []int{10, conn.Small, conn.Small + 1, conn.Large, conn.Large + 1, 4 * conn.Large} {
		for _, length := range []int64{-1, int64(size)} {
			body := `{"result":"` + strings.Repeat("x", size-len(`{"result":""`)+2)
			body = body[:size]
			held, n, complete, err := conn.ReadHead(&http.Response{ContentLength: length, Body: io.NopCloser(strings.NewReader(body))})
			if err != nil || complete != (size < conn.Large) || complete && n != size || string(held.B[:n]) != body[:n] || !complete && n <= conn.Small {
				t.Errorf("of %d bytes (content length %d): %d read, complete %v, %v", size, length, n, complete, err)
			}
			held.Release()
		}
	}
}

func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", 2*conn.Large)
	r := bufio.NewReaderSize(strings.NewReader(" a \r\n\n"+long+"\nrest"), 16)
	for _, want := range []string{"a", "", long} {
		line, held, err := conn.ReadLine(r, 1<<20)
		if err != nil || string(line) != want {
			t.Fatalf("ReadLine = %.20q, %v, want %.20q", line, err, want)
		}
		held.Release()
	}
	if _, _, err := conn.ReadLine(r, 1<<20); err != io.EOF {
		t.Errorf("a line without its end: %v, want EOF", err)
	}
	if _, _, err := conn.ReadLine(bufio.NewReader(strings.NewReader(long)), conn.Large); err == nil || !strings.Contains(err.Error(), "larger than the limit of 65536 bytes") {
		t.Errorf("a line over the limit: %v", err)
	}
}
