package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// askTime is how long another replica may take to return its status.
	askTime = 5 * time.Second
	// askSide is the number of replicas that are asked concurrently, and maxStatus the size limit of a status in bytes.
	askSide   = 16
	maxStatus = 8 << 20
	// statusPath is the path of the status; every signed request gets it.
	statusPath = "/peer/status"
)

// AskAll requests the status of every other replica. answered is called for each, one at a time, with what
// Options.Status returned there, or with an error.
func (t *Set) AskAll(ctx context.Context, answered func(id, address string, text []byte, err error)) {
	var wait sync.WaitGroup
	var mu sync.Mutex
	places := make(chan struct{}, askSide)
	for _, r := range t.o.Members.Replicas() {
		if r.ID == t.self {
			continue
		}
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places }()
			text, err := t.ask(ctx, r.ID)
			mu.Lock()
			defer mu.Unlock()
			answered(r.ID, r.Address, text, err)
		})
	}
	wait.Wait()
}

// ask requests the status of one replica.
func (t *Set) ask(ctx context.Context, id string) (text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	defer func() {
		if gone := recover(); gone != nil {
			if gone != http.ErrAbortHandler {
				panic(gone)
			}
			err = fmt.Errorf("replica %s: its response broke off", id)
		}
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://replica"+statusPath, nil)
	if err != nil {
		return nil, err
	}
	w := &reply{header: http.Header{}, status: http.StatusOK}
	if err := t.peers.Forward(w, r, Passage{To: id, Kind: status}); err != nil {
		return nil, err
	}
	if w.status != http.StatusOK {
		return nil, fmt.Errorf("replica %s: HTTP %d", id, w.status)
	}
	return w.text.Bytes(), nil
}

// reply is an http.ResponseWriter that keeps the response of a replica in memory.
type reply struct {
	header http.Header
	status int
	text   bytes.Buffer
}

var errLong = errors.New("the status of a replica is too long")

func (r *reply) Header() http.Header { return r.header }

func (r *reply) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *reply) Write(text []byte) (int, error) {
	if r.text.Len()+len(text) > maxStatus {
		return 0, errLong
	}
	return r.text.Write(text)
}

// Flush implements http.Flusher.
func (r *reply) Flush() {}
