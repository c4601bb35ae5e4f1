// Package callable describes what scripts can call beside their own functions: rows of the table of builtins,
// functions of the language, methods of values. What each wants, gives and changes is said by types alone.
package callable

import (
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/script/check/types"
	"go.starlark.net/syntax"
)

// Builtin is a row of the table of builtins, as checks see it.
type Builtin struct {
	Name    string
	Params  []Param
	Varargs bool
	Kwargs  bool
	Returns string
	Tool    string // the parameter that takes the name of a tool; "" for none
	Args    string // the parameter with the arguments for it
	Form    string // the parameter with the form of a question
	Pages   bool   // the tool is called page by page
	Repeats string // the parameter with a function that is called again
	Waits   string // the parameter with a time that is waited
	Members map[string]*Builtin
	Values  map[string]types.Type // the members of a module that are no functions
	Pattern string                // the parameter with a regular expression
	Pure    bool                  // called for its result alone
}

// Param is a parameter of a builtin.
type Param struct {
	Name     string
	Type     string // text, integer, number, bool, dict, list, duration, function, functions; "" is anything
	Optional bool
	Choices  []string
}

// OtherName is the parameter whose name means nearly the same: tries for max_attempts.
func (b *Builtin) OtherName(name string) string {
	for _, p := range b.Params {
		for word := range strings.SplitSeq(p.Name, "_") {
			if len(word) > 3 && strings.Contains(name, word) {
				return p.Name
			}
		}
		if p.Name == "max_attempts" && slices.Contains([]string{"tries", "times", "retries", "count", "n"}, name) {
			return p.Name
		}
	}
	return ""
}

// Kinds are the kinds of values that a parameter takes; known is false for one that takes anything.
func (p Param) Kinds() (kinds []types.Kind, known bool) {
	kinds, known = parameterKinds[p.Type]
	return kinds, known
}

var parameterKinds = map[string][]types.Kind{
	"text": {types.Text}, "integer": {types.Int}, "positive": {types.Int}, "number": {types.Int, types.Float}, "bool": {types.Bool},
	"dict": {types.Dict}, "list": {types.List, types.Tuple, types.Set, types.Range, types.Iterable, types.Dict},
	"duration": {types.Text, types.Int, types.Float}, "time": {types.Time},
}

// Word is what a parameter takes, as messages say it.
func (p Param) Word() string { return parameterWords[p.Type] }

var parameterWords = map[string]string{"text": "a text", "integer": "an integer", "positive": "an integer", "number": "a number", "bool": "True or False",
	"dict": "a dict", "list": "a list", "duration": `a duration such as "30s"`, "time": "a time"}

// Argument is one of a call.
type Argument struct {
	Name   string // "" for one by position
	Type   types.Type
	Expr   syntax.Expr
	Spread bool // *args or **kwargs
}

// Positional are the arguments that are given by position.
func Positional(args []Argument) (list []Argument) {
	for _, a := range args {
		if a.Name == "" && !a.Spread {
			list = append(list, a)
		}
	}
	return list
}

// Named is an argument by its name.
func Named(args []Argument, name string) (Argument, bool) {
	for _, a := range args {
		if a.Name == name {
			return a, true
		}
	}
	return Argument{}, false
}
