package types

import (
	"slices"
	"strings"

	"go.starlark.net/syntax"
)

// This part of the package describes by types what scripts can call besides their own functions: rows of the table of
// builtins, functions of the language, methods of values; what each accepts, returns and changes.

// Builtin is a row of the table of builtins, for checks.
type Builtin struct {
	Name    string
	Params  []Param
	Varargs bool
	Kwargs  bool
	Returns string
	Tool    string // the parameter for the name of a tool; "" for none
	Args    string // the parameter for the arguments of its call
	Form    string // the parameter for the form of a question
	Pages   bool   // the tool is called page by page
	Repeats string // the parameter for a function that is called repeatedly
	Waits   string // the parameter for a time to wait
	Members map[string]*Builtin
	Values  map[string]Type // the members of a module that are not functions
	Pattern string          // the parameter for a regular expression
	Pure    bool            // called only for its result
}

// Param is a parameter of a builtin.
type Param struct {
	Name     string
	Type     string // text, integer, number, bool, dict, list, duration, function, functions; "" is anything
	Optional bool
	Choices  []string
}

// OtherName returns the parameter that a name probably means: max_attempts for tries.
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

// Kinds returns the types that a parameter accepts; known is false for one that accepts anything.
func (p Param) Kinds() (kinds []Kind, known bool) {
	kinds, known = parameterKinds[p.Type]
	return kinds, known
}

var parameterKinds = map[string][]Kind{
	"text": {Text}, "integer": {Int}, "positive": {Int}, "number": {Int, floatKind}, "bool": {boolKind},
	"dict": {Dict}, "list": {List, tuple, Set, rangeKind, Iterable, Dict},
	"duration": {Text, Int, floatKind}, "time": {timeKind},
}

// Word names what a parameter accepts, for messages.
func (p Param) Word() string { return parameterWords[p.Type] }

var parameterWords = map[string]string{"text": "a string", "integer": "an integer", "positive": "an integer", "number": "a number", "bool": "True or False",
	"dict": "a dict", "list": "a list", "duration": `a duration such as "30s"`, "time": "a time"}

// Argument is an argument of a call.
type Argument struct {
	Name   string // "" for one by position
	Type   Type
	Expr   syntax.Expr
	Spread bool // *args or **kwargs
}

// positional returns the positional arguments.
func positional(args []Argument) (list []Argument) {
	for _, a := range args {
		if a.Name == "" && !a.Spread {
			list = append(list, a)
		}
	}
	return list
}

// named returns an argument by its name.
func named(args []Argument, name string) (Argument, bool) {
	for _, a := range args {
		if a.Name == name {
			return a, true
		}
	}
	return Argument{}, false
}
