package subscriptions

import (
	"maps"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Followed is the set of resources to which the client of one session has subscribed. The zero value is empty.
type Followed struct {
	mu       sync.Mutex
	over     bool                    // guarded by mu, like all below
	uris     map[string]subscription // by URI of the resource
	uriBytes int                     // of uris
	told     told
}

// All are the URIs of the subscriptions.
func (f *Followed) All() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.uris))
}

// subscription is the way in which a session is subscribed to a resource.
type subscription int

const (
	none   subscription = iota
	shared              // on the backend's shared connection, together with others
	own                 // on a private connection of the session
)

const (
	// maxFollowed bounds the subscriptions of one client.
	maxFollowed = 1000
	// maxFollowedBytes bounds the length of their URIs together.
	maxFollowedBytes = 256 << 10
)

// mayFollow returns why the session cannot have one more subscription.
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

// follow adds a subscription; false if the session has ended or has the same subscription.
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

// unfollow removes a subscription and returns its kind.
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

// follows reports whether the session is subscribed to a resource, on a private connection (mine) or on the shared one.
func (f *Followed) follows(uri string, mine bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if mine {
		return f.uris[uri] == own
	}
	return f.uris[uri] == shared
}

// unfollowAll removes all subscriptions of a session that has ended, and returns those on shared connections.
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
