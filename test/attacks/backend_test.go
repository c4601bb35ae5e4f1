//go:build suites

package attacks

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/test/raw"
)

// backend serves the tools that the programs call.
type backend struct {
	url string

	mu     sync.Mutex
	held   int           // calls that wait to be let go
	change chan struct{} // closed and replaced when held has changed
	free   chan struct{} // closed to let them go
}

func startBackend(t *testing.T) *backend {
	x := &backend{change: make(chan struct{}), free: make(chan struct{})}
	b := &raw.Server{}
	b.Handle = func(c *raw.Call) (string, error) {
		switch c.Method {
		case "tools/list":
			var all []string
			for _, name := range []string{"echo", "a", "big", "bigerr", "blocks", "errblocks", "ints"} {
				all = append(all, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
			}
			return b.List("tools", all...), nil
		case "tools/call":
			return x.callTool(c)
		}
		return "", raw.ErrDefault
	}
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	x.url = s.URL
	return x
}

// hold blocks a call until it is released.
func (b *backend) hold(c *raw.Call) error {
	b.count(1)
	defer b.count(-1)
	select {
	case <-b.free:
		return nil
	case <-c.Done():
		return c.Err()
	}
}

func (b *backend) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held += n
	close(b.change)
	b.change = make(chan struct{})
}

// await waits until n calls are blocked at the same time.
func (b *backend) await(t *testing.T, n int) {
	t.Helper()
	late := time.After(waitTime)
	for {
		b.mu.Lock()
		held, change := b.held, b.change
		b.mu.Unlock()
		if held == n {
			return
		}
		select {
		case <-change:
		case <-late:
			t.Fatalf("%d calls wait at the backend, want %d", held, n)
		}
	}
}

func (b *backend) letGo() { close(b.free) }

func (b *backend) callTool(c *raw.Call) (string, error) {
	var p struct {
		Name      string
		Arguments struct {
			N    int
			Hold bool
		}
	}
	if err := json.Unmarshal(c.Params, &p); err != nil {
		return "", err
	}
	if p.Arguments.Hold {
		if err := b.hold(c); err != nil {
			return "", err
		}
	}
	n := p.Arguments.N
	switch p.Name {
	case "big":
		return `{"content":[{"type":"text","text":"` + strings.Repeat("x", n) + `"}]}`, nil
	case "bigerr":
		return `{"isError":true,"content":[{"type":"text","text":"` + strings.Repeat("x", n) + `"}]}`, nil
	case "blocks":
		return `{"content":[` + strings.Repeat("{},", n) + `{}]}`, nil
	case "errblocks":
		return `{"isError":true,"content":[` + strings.Repeat("{},", n) + `{}]}`, nil
	case "ints":
		return `{"content":[],"structuredContent":{"items":[` + strings.Repeat("0,", n) + `0]}}`, nil
	}
	return `{"content":[{"type":"text","text":"small"}]}`, nil
}
