package operate

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
)

const (
	// maxFollowers bounds the concurrent requests with ?follow.
	maxFollowers = 32
	// adminPause is how long a follower collects lines before it writes them, so that many lines cost few writes.
	adminPause = 50 * time.Millisecond
	// defaultTail is the number of earlier lines that are returned without ?tail.
	defaultTail = 100
)

// follower writes lines to one request.
type follower struct {
	lines   *backends.Log
	backend string // "": of all backends
	out     *json.Encoder
	flush   func() error
}

// serveLogs writes the last lines about one backend or all: ?tail=N of the existing ones, and with ?follow new ones
// until the client disconnects or the endpoint drains.
func (a *api) serveLogs(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if known := a.Backends(); name != "" && !slices.Contains(known, name) {
		a.notFound(w, "backend", name, known)
		return
	}
	tail, follow, err := parameters(r)
	if err != "" {
		a.fail(w, http.StatusBadRequest, err, "")
		return
	}
	if follow {
		if a.followers.Add(1) > maxFollowers {
			a.followers.Add(-1)
			a.fail(w, http.StatusServiceUnavailable, "too many requests with follow", "end some of them")
			return
		}
		defer a.followers.Add(-1)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	f := &follower{lines: a.Lines, backend: name, out: json.NewEncoder(w), flush: http.NewResponseController(w).Flush}
	f.out.SetEscapeHTML(false)
	last, at := a.Lines.Tail(name, tail)
	if f.write(last) && follow {
		f.follow(r.Context().Done(), a.Draining, at)
	}
}

// parameters parses the query; why says what is wrong with it.
func parameters(r *http.Request) (tail int, follow bool, why string) {
	q := r.URL.Query()
	tail = defaultTail
	if text := q.Get("tail"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return 0, false, "tail: want a number of lines, such as 100"
		}
		tail = n
	}
	if q.Has("follow") && q.Get("follow") != "" {
		on, err := strconv.ParseBool(q.Get("follow"))
		if err != nil {
			return 0, false, "follow: want true or false"
		}
		return tail, on, ""
	}
	return tail, q.Has("follow"), ""
}

// follow writes new lines until one of the channels is closed.
func (f *follower) follow(gone, draining <-chan struct{}, at uint64) {
	for {
		news, lost, next, more := f.lines.Since(f.backend, at)
		if lost {
			news = slices.Insert(news, 0, backends.Line{Time: time.Now().UTC(), Backend: f.backend, Stream: backends.Own, Level: "warning", Text: "lines were written faster than this client read them: some are missing here"})
		}
		if !f.write(news) {
			return
		}
		at = next
		select {
		case <-more:
		case <-gone:
			return
		case <-draining:
			return
		}
		select {
		case <-time.After(adminPause):
		case <-gone:
			return
		}
	}
}

// write writes lines; false if the client has disconnected.
func (f *follower) write(all []backends.Line) bool {
	for _, line := range all {
		if f.out.Encode(line) != nil {
			return false
		}
	}
	return f.flush() == nil
}
