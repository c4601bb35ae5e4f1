package script_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/script"
)

// A journal belongs to one run at a time, and returns what was recorded to the next one.
func ExampleJournal() {
	ctx, j := context.Background(), script.NewJournal()
	run := script.Header{Program: "hash of the files", Args: "hash of the arguments"}

	if _, err := j.Open(ctx, run); err != nil {
		fmt.Println(err)
	}
	call := script.Entry{Key: "0", Kind: "call"}
	j.Begin(ctx, call)
	call.Result = json.RawMessage(`{"id": 7}`)
	j.Record(call)
	j.Begin(ctx, script.Entry{Key: "1", Kind: "call"})
	j.Close() // in the middle of the second call

	entries, err := j.Open(ctx, run)
	for _, e := range entries {
		fmt.Printf("%s done: %v %q\n", e.Key, e.Done, e.Result)
	}
	fmt.Println(err)
	j.Close()

	_, err = j.Open(ctx, script.Header{Program: "another"})
	fmt.Println(err)
	// Output:
	// 0 done: true "{\"id\": 7}"
	// 1 done: false ""
	// <nil>
	// belongs to another run: the script or its arguments have changed
}
