package runs

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script"
)

// Size is what an entry counts in Run.Bytes.
func Size(e script.Entry) int64 {
	n := len(e.Key) + len(e.Kind) + len(e.Name) + len(e.Args) + len(e.Result) + len(e.Held) + 100
	if !e.Done {
		n += reserved
	}
	if e.Failure != nil {
		n += len(e.Failure.Kind) + len(e.Failure.Message)
	}
	return int64(n)
}

// reserved is what an entry that is begun has room for beside itself: that its answer had none, see TooLarge.
const reserved = 80

// TooLarge is an entry whose answer the journal has no room for: the failure that ends its run. Where the entry was
// begun, the journal has room for it.
func TooLarge(e script.Entry, limit *LimitError) script.Entry {
	e.Result, e.Failure = nil, &script.Failure{Kind: "limit", Message: limit.Error()}
	return e
}

// Outline is an entry without what was sent and what came back.
func Outline(e script.Entry) script.Entry {
	e.Args, e.Result, e.Held = nil, nil, nil
	if e.Failure != nil {
		e.Failure = &script.Failure{Kind: e.Failure.Kind}
	}
	return e
}

// Asked reports whether the effect with a key, or one below it, has asked a question: when that has its answer, the
// question is no longer open.
func Asked(effect string, q Question) bool {
	return q.Key == effect || strings.HasPrefix(q.Key, effect+"/")
}

// Entry is an entry in doubt when it has been resolved.
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
