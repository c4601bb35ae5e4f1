package wire

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func readAll(t *testing.T, stream string, limit int) ([]Event, error) {
	t.Helper()
	r := NewEventReader(strings.NewReader(stream), limit)
	var all []Event
	for {
		e, err := r.Next()
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
}

func TestEventReader(t *testing.T) {
	stream := "\xef\xbb\xbf: a comment\n\n" +
		"id: 7\nevent: message\ndata: {\"a\":1}\n\n" +
		"data: two\ndata:  lines\r\n\r\n" +
		"retry: 250\n\n" +
		"id\ndata\n\n" +
		"unknown: x\n\n" +
		"data: cut off"
	got, err := readAll(t, stream, 100)
	if !errors.Is(err, io.EOF) {
		t.Fatalf("the end is %v, want EOF", err)
	}
	want := []Event{
		{ID: "7", HasID: true, Name: "message", Data: []byte(`{"a":1}`)},
		{Data: []byte("two\n lines")},
		{Retry: 250 * time.Millisecond},
		{HasID: true, Data: []byte("")},
	}
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		if g.ID != w.ID || g.HasID != w.HasID || g.Name != w.Name || string(g.Data) != string(w.Data) || g.Retry != w.Retry {
			t.Errorf("event %d is %+v, want %+v", i, g, w)
		}
	}
}

// A large event has the same data in parts, for all sizes of lines and buffers.
func TestEventReaderParts(t *testing.T) {
	long := strings.Repeat("some \r text; ", 40)
	stream := "data: small\n\n: " + long + "\nid: 1\ndata: " + long + "\r\ndata:more\r\ndata:" + long + "\n\ndata: after\n\n"
	want := []string{"small", long + "\nmore\n" + long, "after"}
	for size := 16; size < 700; size++ {
		r := NewEventReaderSize(strings.NewReader(stream), 10_000, size)
		for _, w := range want {
			e, whole, err := r.NextPart(make([]byte, 0, 100))
			if err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(r)
			if got := string(e.Data) + string(rest); err != nil || got != w || whole != (len(rest) == 0) {
				t.Fatalf("buffer of %d: got %q, %v, whole %t\nwant %q", size, got, err, whole, w)
			}
		}
	}
}

func TestEventReaderPartCutOff(t *testing.T) {
	r := NewEventReaderSize(strings.NewReader("data: "+strings.Repeat("x", 1000)), 10_000, 16)
	if _, whole, err := r.NextPart(make([]byte, 0, 100)); whole || err != nil {
		t.Fatalf("NextPart: whole %t, %v, want a part", whole, err)
	}
	if _, err := io.ReadAll(r); err != io.ErrUnexpectedEOF {
		t.Errorf("the rest ends with %v, want ErrUnexpectedEOF", err)
	}
}

func TestEventReaderLimit(t *testing.T) {
	for _, stream := range []string{
		"data: " + strings.Repeat("x", 200) + "\n\n",
		strings.Repeat("data: xxxxxxxx\n", 20) + "\n",
		"data: " + strings.Repeat("x", 10000),
	} {
		if _, err := readAll(t, stream, 100); !errors.Is(err, ErrEventTooLarge) {
			t.Errorf("a stream of %d bytes ends with %v, want ErrEventTooLarge", len(stream), err)
		}
	}
}

// FuzzEvents: for any bytes the reader keeps its limit and returns only received data.
func FuzzEvents(f *testing.F) {
	f.Add("data: x\n\ndata: y\r\n\r\n")
	f.Add("id: 1\nretry: 10\nevent: e\ndata\n\n:\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		got, err := readAll(t, stream, 64)
		if !errors.Is(err, io.EOF) && !errors.Is(err, ErrEventTooLarge) {
			t.Fatalf("the end is %v", err)
		}
		for _, e := range got {
			if len(e.Data) > 64+8 {
				t.Fatalf("an event of %d bytes over a limit of 64", len(e.Data))
			}
		}
	})
}

func BenchmarkEvents(b *testing.B) {
	stream := strings.Repeat("id: 1\nevent: message\ndata: "+`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`+"\n\n", 100)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewEventReader(strings.NewReader(stream), 1<<20)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
}
