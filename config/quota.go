package config

import (
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"
)

// RateLimiting bounds how often tools are called. Only calls of clients count, each once, and
// one that may not be made for any of its limits counts for none.
type RateLimiting struct {
	// Shared is for all callers together.
	Shared Bucket `json:"shared,omitempty" crd:"yes"`
	// PerUser is for each principal. Where nobody is asked who they are, all are one.
	PerUser Bucket `json:"perUser,omitempty" crd:"yes"`
	// Tools are limits of single tools, beside those above.
	Tools []ToolRate `json:"tools,omitempty" crd:"yes"`
}

// Bucket is a number of calls that may be made at once, and the time in which that many come back.
type Bucket struct {
	// MaxTokens is how many calls. 0 is no limit.
	MaxTokens int `json:"maxTokens,omitempty" crd:"yes"`
	// RefillPeriod is the time in which an empty bucket is full again.
	RefillPeriod Duration `json:"refillPeriod,omitempty" crd:"yes"`
}

// ToolRate limits the calls of one tool, or of several together.
type ToolRate struct {
	// Name is the tool's name as clients see it, or with a dot its backend and its own name there, in which * stands for anything: github.delete_*. Scripted tools are those of the backend scripts.
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
			v.report(at+".name", "want the name of a tool, or a backend and a pattern such as github.*; have %q", t.Name)
		} else if first, twice := names[t.Name]; twice {
			v.report(at+".name", "%q is the name of rateLimiting.tools[%d] already", t.Name, first)
		}
		names[t.Name] = i
		v.bucket(at+".shared", &t.Shared)
		v.bucket(at+".perUser", &t.PerUser)
		if t.Shared == (Bucket{}) && t.PerUser == (Bucket{}) {
			v.report(at, "want shared or perUser")
		}
	}
}

func (v *validator) bucket(at string, b *Bucket) {
	switch {
	case *b == (Bucket{}):
	case b.MaxTokens < 1 || b.MaxTokens > maxTokens:
		v.report(at+".maxTokens", "want a number from 1 to %d, have %d", maxTokens, b.MaxTokens)
	case b.RefillPeriod <= 0:
		v.report(at+".refillPeriod", "want the time in which %d calls come back, such as 1m", b.MaxTokens)
	}
}
