package config

import (
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"
)

// RateLimiting bounds how often tools are called. Only calls of clients count, each once; a call
// that one limit refuses is counted by none.
type RateLimiting struct {
	// Shared is for all callers together.
	Shared Bucket `json:"shared,omitempty" crd:"yes"`
	// PerUser is for each principal. Clients that are not authenticated share one.
	PerUser Bucket `json:"perUser,omitempty" crd:"yes"`
	// Tools are limits of single tools, in addition to those above.
	Tools []ToolRate `json:"tools,omitempty" crd:"yes"`
}

// Bucket is a token bucket: the number of calls that may be made at once, and the time in which it is refilled.
type Bucket struct {
	// MaxTokens is the number of calls. 0 is no limit.
	MaxTokens int `json:"maxTokens,omitempty" crd:"yes"`
	// RefillPeriod is the time in which an empty bucket is full again.
	RefillPeriod Duration `json:"refillPeriod,omitempty" crd:"yes"`
}

// ToolRate limits the calls of one tool, or of several together.
type ToolRate struct {
	// Name is the tool's name as clients see it, or backend.name with its name at the backend, in which * matches any characters: github.delete_*. Scripted tools are those of the backend scripts.
	Name string `json:"name" crd:"yes"`
	// Shared is for all callers together.
	Shared Bucket `json:"shared,omitempty" crd:"yes"`
	// PerUser is for each principal.
	PerUser Bucket `json:"perUser,omitempty" crd:"yes"`
}

// maxTokens bounds a bucket.
const maxTokens = 1_000_000_000

// rateLimiting checks how often tools may be called.
func (v *validator) rateLimiting(r *RateLimiting) {
	const at = "rateLimiting"
	v.bucket(at+".shared", &r.Shared)
	v.bucket(at+".perUser", &r.PerUser)
	names := map[string]int{}
	for i := range r.Tools {
		t, at := &r.Tools[i], document.IndexPath(at+".tools", i)
		if t.Name == "" || strings.Contains(t.Name, "*") && !strings.Contains(t.Name, ".") {
			v.Report(at+".name", "want the name of a tool, or a backend and a pattern such as github.*; have %q", t.Name)
		} else if first, twice := names[t.Name]; twice {
			v.Report(at+".name", "%q is the name of rateLimiting.tools[%d] already", t.Name, first)
		}
		names[t.Name] = i
		v.bucket(at+".shared", &t.Shared)
		v.bucket(at+".perUser", &t.PerUser)
		if t.Shared == (Bucket{}) && t.PerUser == (Bucket{}) {
			v.Report(at, "want shared or perUser")
		}
	}
}

func (v *validator) bucket(at string, b *Bucket) {
	switch {
	case *b == (Bucket{}):
	case b.MaxTokens < 1 || b.MaxTokens > maxTokens:
		v.Report(at+".maxTokens", "want a number from 1 to %d, have %d", maxTokens, b.MaxTokens)
	case b.RefillPeriod <= 0:
		v.Report(at+".refillPeriod", "want the time in which %d calls come back, such as 1m", b.MaxTokens)
	}
}
