// Package limits has the limits of one run of a script, and the types of sizes and durations
// in the configuration. The same struct is filled from YAML and enforced by the engine; its
// tags are the only place of the defaults.
package limits

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
)

// Run bounds one run of a script. Limits that a tool does not set are taken from the general
// limits. All but time, callTimeout and elicitTimeout are counted and not sampled: the same
// script with the same results reaches the same limit at the same place.
type Run struct {
	// Steps is the number of interpreter steps of one run, including those of the scripts that it calls.
	Steps int64 `json:"steps,omitempty" default:"1000000" crd:"yes"`
	// Memory is the total memory that one run may allocate, including memory that it frees, and with the
	// scripts that it calls.
	Memory Bytes `json:"memory,omitempty" default:"256MB" crd:"yes"`
	// Time bounds the time that one run is active, over all its parts, without the time that it sleeps or waits for
	// people. For composite tools it is the time from beginning to end.
	Time Duration `json:"time,omitempty" default:"30m" crd:"yes"`
	// CallTimeout bounds one call of a tool.
	CallTimeout Duration `json:"callTimeout,omitempty" default:"5m" crd:"yes"`
	// Calls is the number of tool calls, questions and other effects that take time of one run, with the scripts that
	// it calls.
	Calls int `json:"calls,omitempty" default:"1000" crd:"yes"`
	// Parallel is the number of branches of one request that run concurrently, also with nested parallel().
	Parallel int `json:"parallel,omitempty" default:"10" crd:"yes"`
	// Branches is the number of branches of one run, over all its calls of parallel().
	Branches int `json:"branches,omitempty" default:"1000" crd:"yes"`
	// Nesting is the depth of nested parallel() calls.
	Nesting int `json:"nesting,omitempty" default:"8" crd:"yes"`
	// CallDepth is the depth of function calls in a script.
	CallDepth int `json:"callDepth,omitempty" default:"200" crd:"yes"`
	// LoadDepth is the depth of libraries that load each other.
	LoadDepth int `json:"loadDepth,omitempty" default:"10" crd:"yes"`
	// Source is the size of one source file.
	Source Bytes `json:"source,omitempty" default:"256KB" crd:"yes"`
	// SourceNodes is the number of nodes in the syntax tree of one source file: names, literals, operators, statements.
	SourceNodes int `json:"sourceNodes,omitempty" default:"50000" crd:"yes"`
	// Program is the size of a file and all that it loads. The configuration has no field for it.
	Program Bytes `json:"program,omitempty" default:"1MB" config:"-" crd:"no"`
	// Result is the size of one tool result that a script reads.
	Result Bytes `json:"result,omitempty" default:"8MB" crd:"yes"`
	// Output is the size of the value that a script returns, and of the arguments of one effect.
	Output Bytes `json:"output,omitempty" default:"10MB" crd:"yes"`
	// Depth is the nesting of values that are read from or written as JSON. The configuration has no field
	// for it.
	Depth int `json:"depth,omitempty" default:"100" config:"-" crd:"no"`
	// LogBytes is the size of the log of one run; each line and each progress note counts 200 bytes more than
	// its text.
	LogBytes Bytes `json:"logBytes,omitempty" default:"1MB" crd:"yes"`
	// ElicitTimeout is how long a question waits for its answer.
	ElicitTimeout Duration `json:"elicitTimeout,omitempty" default:"10m" crd:"yes"`
	// Lifetime bounds one run from its beginning to its end, including the time that it sleeps or waits.
	Lifetime Duration `json:"lifetime,omitempty" default:"30d" crd:"yes"`
}

// Defaults returns the default limits.
func Defaults() Run { return defaults }

var defaults = func() (l Run) {
	v := reflect.ValueOf(&l).Elem()
	for i := range v.NumField() {
		if err := SetText(v.Field(i), v.Type().Field(i).Tag.Get("default")); err != nil {
			panic(fmt.Sprintf("limits: default of %s: %v", v.Type().Field(i).Name, err))
		}
	}
	return l
}()

// Or returns l with the zero fields replaced by those of base.
func (l Run) Or(base Run) Run {
	if l == (Run{}) || l == base {
		return base
	}
	to, from := reflect.ValueOf(&l).Elem(), reflect.ValueOf(&base).Elem()
	for i := range to.NumField() {
		if f := to.Field(i); f.IsZero() {
			f.Set(from.Field(i))
		}
	}
	return l
}

// SetText sets v, a string, integer, bool, encoding.TextUnmarshaler or a pointer to one of
// these, from the text of a tag.
func SetText(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	if v.Kind() == reflect.String {
		v.SetString(text)
		return nil
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return SetText(v.Elem(), text)
	}
	if v.Kind() == reflect.Bool {
		on, err := strconv.ParseBool(text)
		v.SetBool(on)
		return err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		v.SetInt(n)
	}
	return err
}
