package backends_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/vmcp-dev/vmcp/backends"
)

func plain(s string) string { return s }

func texts(all []backends.Line) (texts []string) {
	for _, l := range all {
		texts = append(texts, l.Backend+"/"+l.Stream+"/"+l.Level+"/"+l.Text)
	}
	return texts
}

func TestTailAndSince(t *testing.T) {
	l := backends.New(func(s string) string { return strings.ReplaceAll(s, "s3cret", "***TOKEN***") })
	l.Add("a", backends.Stderr, "info", "one s3cret\r\n")
	l.Add("b", backends.Own, "warning", "two")
	l.Add("a", backends.MCP, "error", "three")
	if got, _ := l.Tail("", 2); strings.Join(texts(got), " ") != "b/vmcp/warning/two a/mcp/error/three" {
		t.Errorf("tail of all = %q", texts(got))
	}
	got, at := l.Tail("a", 10)
	if strings.Join(texts(got), " ") != "a/stderr/info/one ***TOKEN*** a/mcp/error/three" {
		t.Errorf("tail of a = %q", texts(got))
	}
	_, _, _, more := l.Since("a", at)
	l.Add("b", backends.Stderr, "info", "four")
	l.Add("a", backends.Stderr, "info", "five")
	<-more
	if news, lost, _, _ := l.Since("a", at); strings.Join(texts(news), " ") != "a/stderr/info/five" || lost {
		t.Errorf("news = %q, %v", texts(news), lost)
	}
	l.RetainOnly([]string{"b"})
	if got, _ := l.Tail("", 10); strings.Join(texts(got), " ") != "b/vmcp/warning/two b/stderr/info/four" {
		t.Errorf("after a is gone: %q", texts(got))
	}
}

// TestBounds: many lines, long ones and invalid UTF-8 stay within the bounds.
func TestBounds(t *testing.T) {
	l := backends.New(plain)
	for range 3000 {
		l.Add("many", backends.Stderr, "info", "x")
		l.Add("long", backends.Stderr, "info", strings.Repeat("é", 50_000))
		l.Add("odd", backends.Stderr, "info", strings.Repeat("\xff", 100))
	}
	for name, want := range map[string]int{"many": 2000, "long": 31, "odd": 2000} {
		got, _ := l.Tail(name, 1<<20)
		size := 0
		for _, line := range got {
			size += len(line.Text)
			if !utf8.ValidString(line.Text) {
				t.Fatalf("%s: %q is no UTF-8", name, line.Text[:20])
			}
		}
		if len(got) != want || size > 256<<10 {
			t.Errorf("%s: %d lines of %d bytes, want %d", name, len(got), size, want)
		}
	}
	if _, lost, _, _ := l.Since("many", 1); !lost {
		t.Error("lines that had to go are not noticed")
	}
}

func TestMessage(t *testing.T) {
	l := backends.New(plain)
	for _, params := range []string{
		`{"level":"warning","logger":"db","data":"slow \u001b[31m"}`, `{"level":"x","data":{"a": [1,
 2]}}`, `{}`, `[`, `{"level":"info","data":"` + strings.Repeat("x", 300<<10) + `"}`,
	} {
		l.Message("a", []byte(params))
	}
	got, _ := l.Tail("a", 10)
	want := []string{"a/mcp/warning/db: slow \x1b[31m", `a/mcp/info/{"a": [1, 2]}`, "a/mcp/info/", "a/mcp/info/", "a/mcp/info/a message of 307202 bytes"}
	if strings.Join(texts(got), "|") != strings.Join(want, "|") {
		t.Errorf("got %q\nwant %q", texts(got), want)
	}
	(*backends.Log)(nil).Message("a", nil)
}

// TestHandler: records of level info and above are kept, whatever the level of the log.
func TestHandler(t *testing.T) {
	var out bytes.Buffer
	l := backends.New(plain)
	log := slog.New(l.Handler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}), "a")).With("backend", "a")
	log.Debug("no")
	log.Info("backend is ready", "tools", 3)
	log.Warn("backend connection lost", "err", errors.New("gone"))
	got, _ := l.Tail("a", 10)
	if want := "a/vmcp/info/backend is ready tools=3|a/vmcp/warning/backend connection lost: gone"; strings.Join(texts(got), "|") != want {
		t.Errorf("got %q\nwant %q", texts(got), want)
	}
	if s := out.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, `msg="backend connection lost" backend=a err=gone`) {
		t.Errorf("log: %s", s)
	}
}
