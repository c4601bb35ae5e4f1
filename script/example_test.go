package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// A builtin performs its effects with Run.Do, which records them in the journal.
func Example() {
	weather := starlark.NewBuiltin("weather", func(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var city string
		if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "city", &city); err != nil {
			return nil, err
		}
		question, _ := json.Marshal(city)
		run := script.RunOf(t)
		raw, err := run.Do(t, script.Effect{Kind: "weather", Args: question}, func(context.Context) (json.RawMessage, error) {
			return json.RawMessage(`{"sky": "clear", "degrees": 21}`), nil // a request to a weather service
		})
		if err != nil {
			return nil, err
		}
		return script.DecodeIn(t, raw, run.Limits().Depth)
	})
	source := `
def run(params):
    w = weather(params["city"])
    return "%s: %s, %d degrees" % (params["city"], w["sky"], w["degrees"])
`
	p, err := script.Compile(script.File{Name: "weather.star", Source: []byte(source)}, script.Options{
		Builtins: starlark.StringDict{"weather": weather},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := p.Run(context.Background(), script.RunOptions{Args: json.RawMessage(`{"city": "Lisbon"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s, calls: %d\n", res.Structured, res.Stats.Calls)
	// Output: "Lisbon: clear, 21 degrees", calls: 1
}

// A run that needs an answer which is not available yet ends with its question. The same program over the same journal
// continues from there, and repeats nothing.
func ExampleSuspended() {
	var answer json.RawMessage
	ask := starlark.NewBuiltin("ask", func(t *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		run := script.RunOf(t)
		key := run.Key(t)
		raw, err := run.Do(t, script.Effect{Kind: "ask", Repeatable: true}, func(context.Context) (json.RawMessage, error) {
			if answer == nil {
				return nil, &script.Suspended{Questions: []script.Question{{Key: key, Method: "ask"}}}
			}
			return answer, nil
		})
		if err != nil {
			return nil, err
		}
		return script.DecodeIn(t, raw, 10)
	})
	pay := starlark.NewBuiltin("pay", func(t *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		_, err := script.RunOf(t).Do(t, script.Effect{Kind: "pay"}, func(context.Context) (json.RawMessage, error) {
			fmt.Println("paid")
			return json.RawMessage(`null`), nil
		})
		return starlark.None, err
	})
	p, err := script.Compile(script.File{Name: "order.star", Source: []byte("def run(params):\n    pay()\n    return ask()\n")}, script.Options{
		Builtins: starlark.StringDict{"ask": ask, "pay": pay},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	j := script.NewJournal()
	_, err = p.Run(context.Background(), script.RunOptions{Journal: j})
	var waits *script.Suspended
	if errors.As(err, &waits) {
		fmt.Println("asks:", waits.Questions[0].Key)
	}
	answer = json.RawMessage(`"to Lisbon"`)
	res, err := p.Run(context.Background(), script.RunOptions{Journal: j})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("returns:", string(res.Structured))
	// Output:
	// paid
	// asks: 1
	// returns: "to Lisbon"
}

// ExampleLimits are counted: this program ends at the same place everywhere.
func ExampleLimits() {
	p, err := script.Compile(script.File{Name: "loop.star", Source: []byte("def run(params):\n    while True:\n        pass\n")}, script.Options{
		Limits: script.Limits{Steps: 10_000, Time: script.Duration(time.Minute)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = p.Run(context.Background(), script.RunOptions{})
	fmt.Println(err)
	var limit *script.LimitError
	if errors.As(err, &limit) {
		fmt.Println(limit.Limit, limit.Value)
	}
	// Output:
	// loop.star:2:5: limit reached: steps (10000)
	// steps 10000
}
