package durable_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script"
)

// A run is started in a store, acquired by one owner, executed over its journal, and ended.
func Example_runs() {
	ctx := context.Background()
	program, err := script.Compile(script.File{Name: "double.star", Source: []byte("def run(args):\n    return args[\"n\"] * 2\n")}, script.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	store := durable.NewMemory(durable.Options{}, nil)
	defer store.Close()
	run, _, err := store.Start(ctx, durable.Run{Tool: "double", Args: json.RawMessage(`{"n": 21}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err := store.Acquire(ctx, run.ID, "this process")
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome := durable.Outcome{State: durable.Failed}
	if res, err := program.Run(ctx, script.RunOptions{Args: run.Args, Journal: lease}); err == nil {
		outcome = durable.Outcome{State: durable.Done, Result: res.Structured}
	}
	if err := lease.End(ctx, outcome); err != nil {
		fmt.Println(err)
		return
	}
	run, _, err = store.Get(ctx, run.ID)
	fmt.Println(run.State, string(run.Result), err)
	// Output: done 42 <nil>
}
