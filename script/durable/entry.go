package durable

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script"
)

// Size is the number of bytes by which an entry is counted in Run.Bytes.
func Size(e script.Entry) int64 {
	n := len(e.Key) + len(e.Kind) + len(e.Name) + len(e.Args) + len(e.Result) + len(e.SavedState) + 100
	if !e.Done {
		n += reserved
	}
	if e.Failure != nil {
		n += len(e.Failure.Kind) + len(e.Failure.Message)
	}
	return int64(n)
}

// reserved is the number of bytes that an entry without an answer is counted larger than it is: room for the
// failure by which TooLarge replaces an answer that is too large.
const reserved = 80

// TooLarge returns e with a failure of kind "limit" instead of its result, for an answer that exceeds the bounds of
// the journal. The failure ends the run. Where the entry was begun, the failure itself is within the bounds, see reserved.
func TooLarge(e script.Entry, limit *LimitError) script.Entry {
	e.Result, e.Failure = nil, &script.Failure{Kind: "limit", Message: limit.Error()}
	return e
}

// Outline returns e without its arguments, its result, the message of its failure and its saved state.
func Outline(e script.Entry) script.Entry {
	e.Args, e.Result, e.SavedState = nil, nil, nil
	if e.Failure != nil {
		e.Failure = &script.Failure{Kind: e.Failure.Kind}
	}
	return e
}

// Asked reports whether a question was asked by the effect with the key effect, or by one below it. Once that effect
// has ended, the question is no longer open.
func Asked(effect string, q Question) bool {
	return q.Key == effect || strings.HasPrefix(q.Key, effect+"/")
}

// Entry returns e, an entry in doubt, as it is stored after the resolution: ended, or marked to be attempted again.
func (r Resolution) Entry(e script.Entry) script.Entry {
	if r.Repeat {
		e.Again = true
		return e
	}
	e.Done, e.Ended = true, time.Now()
	if r.Done == nil {
		e.Failure = &script.Failure{Kind: "tool", Message: r.Failed}
		return e
	}
	text, _ := json.Marshal(string(r.Done))
	content := jsonscan.Array(new(jsonscan.Object).Text("type", "text").Raw("text", text).JSON())
	e.Result = new(jsonscan.Object).Raw("content", content).Raw("structuredContent", r.Done).JSON()
	return e
}
