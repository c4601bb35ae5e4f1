package migrate

import (
	"iter"
	"maps"
	"slices"

	"github.com/bazelbuild/buildtools/build"

	"github.com/vmcp-dev/vmcp/migrate/internal/star"
)

// helpers are functions that clean scripts define for themselves where a shape is only
// known at run time.
var helpers = map[string]string{
	"pairs": `
def pairs(x):
    """Keys or positions, each with its value."""
    if type(x) == "dict":
        return sorted(x.items())
    return enumerate([] if x == None else x)
`,
	"items": `
def items(x):
    """The elements of a list, or the values of a dict by the order of its keys."""
    if type(x) == "dict":
        return [x[k] for k in sorted(x)]
    return [] if x == None else list(x)
`,
	"entry": `
def entry(x, key):
    """What a dict has at a key, if anything, or a list at a position."""
    if type(x) == "dict" and type(key) == "string":
        return x.get(key)
    return x[key]
`,
	"iteration": `
def iteration(index, item, result):
    """What is known of one element of a loop that goes on after a failure."""
    if result.ok:
        return {"index": index, "item": item, "output": result.output, "status": "completed"}
    return {"error": result.error, "index": index, "item": item, "output": {}, "status": "failed"}
`,
	"summary": `
def summary(iterations):
    """The elements of a loop, and how they went."""
    completed = len([i for i in iterations if i["status"] == "completed"])
    return {
        "completed": completed,
        "count": len(iterations),
        "failed": len(iterations) - completed,
        "iterations": iterations,
    }
`,
}

func helperNames() iter.Seq[string] { return maps.Keys(helpers) }

// helperDefs are the definitions of the helpers that a script uses.
func helperDefs(used map[string]bool) (defs []star.Stmt) {
	for _, name := range slices.Sorted(helperNames()) {
		if !used[name] {
			continue
		}
		f, err := build.ParseDefault(name, []byte(helpers[name]))
		if err != nil {
			panic(err) // the text is above
		}
		defs = append(defs, f.Stmt...)
	}
	return defs
}

// helper notes that the script uses a helper.
func (c *clean) helper(name string) string {
	c.helpers[name] = true
	return name
}
