package subscriptions

import (
	"maps"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Followed is the resources that the client of one session follows. The zero value is none.
type Followed struct {
	mu       sync.Mutex
	over     bool                    // guarded by mu, like all below
	uris     map[string]subscription // of resources
	uriBytes int                     // of uris
	told     told
}

// All are the URIs of what the session follows.
func (f *Followed) All() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.uris))
}

// subscription is how a session follows a resource.
type subscription int

const (
	none   subscription = iota
	shared              // with others, on the backend's main connection
	own                 // on a connection of the session's own
)

const (
	// maxFollowed is how many resources one client can follow.
	maxFollowed = 1000
	// maxFollowedBytes is how long their URIs can be together.
	maxFollowedBytes = 256 << 10
)

// mayFollow says why the session cannot follow one more resource.
func (f *Followed) mayFollow(uri string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.uris[uri]; known {
		return nil
	}
	if len(f.uris) >= maxFollowed || f.uriBytes+len(uri) > maxFollowedBytes {
		return wire.Errorf(wire.InvalidParams, "the session follows %d resources already, of at most %d with URIs of %d bytes together; unsubscribe from one first", len(f.uris), maxFollowed, maxFollowedBytes)
	}
	return nil
}

// follow notes how the session follows a resource. It is false when the session has
// ended or follows it so already.
func (f *Followed) follow(uri string, how subscription) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.uris[uri] == how {
		return false
	}
	if f.uris == nil {
		f.uris = map[string]subscription{}
	}
	if f.uris[uri] == none {
		f.uriBytes += len(uri)
	}
	f.uris[uri] = how
	return true
}

// unfollow ends that, and returns how the session followed the resource.
func (f *Followed) unfollow(uri string) subscription {
	f.mu.Lock()
	defer f.mu.Unlock()
	how := f.uris[uri]
	if how != none {
		f.uriBytes -= len(uri)
	}
	delete(f.uris, uri)
	return how
}

// follows reports whether the session follows a resource, on its own connection or on
// the shared one.
func (f *Followed) follows(uri string, mine bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if mine {
		return f.uris[uri] == own
	}
	return f.uris[uri] == shared
}

// unfollowAll forgets what the session followed that has ended, and returns what it followed
// together with others.
func (f *Followed) unfollowAll() (uris []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	for u, how := range f.uris {
		if how == shared {
			uris = append(uris, u)
		}
	}
	f.uris, f.uriBytes = nil, 0
	return uris
}
