package script_test

import (
	"context"
	"fmt"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
)

// A file is parsed and its names are resolved without compiling it. Errors have a position and a suggestion.
func ExampleResolve() {
	f := script.File{Name: "bill.star", Source: []byte("def run(params):\n    total = 1\n    return totl\n")}
	tree, err := script.Parse(f, script.DefaultLimits())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(script.Resolve(tree, nil))
	// Output: bill.star:3:12: undefined: totl (did you mean total?)
}

// A text inside another file, here a script in a configuration, keeps the positions of that file.
func ExampleFile() {
	f := script.File{
		Name:   "bill",
		Source: []byte("def run(params)\n    return 1\n"),
		Origin: diag.Origin{Pos: diag.Pos{File: "vmcp.yaml", Line: 12, Column: 7}, Exact: true},
	}
	_, err := script.Parse(f, script.DefaultLimits())
	fmt.Println(err)
	// Output: vmcp.yaml:13:7: got newline, want ':'
}

// The files of a library are loaded from texts and folders.
func ExampleLibrary() {
	lib := script.Library{Inline: map[string]string{
		"money.star": "def euros(cents):\n    return \"%d.%s\" % (cents // 100, str(100 + cents % 100)[1:])\n",
	}}
	p, err := script.Compile(script.File{
		Name:   "bill.star",
		Source: []byte("load(\"money.star\", \"euros\")\n\ndef run(params):\n    return euros(1205)\n"),
	}, script.Options{Load: lib.Load})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := p.Run(context.Background(), script.RunOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(res.Structured))
	_, err = lib.Load("bill.star", "../secrets.star")
	fmt.Println(err)
	// Output:
	// "12.05"
	// want a relative name below the library, such as "helpers.star"
}
