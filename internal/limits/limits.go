// Package limits has what bounds one run of a script, and sizes and times as the
// configuration writes them. The struct that YAML fills is the one that the engine keeps
// to, and its tags are the only place that says what a limit is by default.
package limits

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
)

// Run bounds one run of a script. What a tool does not set is taken from the general limits.
// All but time, callTimeout and elicitTimeout are counted and not sampled: the same script
// with the same answers reaches the same limit at the same place.
type Run struct {
	// Steps is the number of interpreter steps of one run, those of the scripts that it calls included.
	Steps int64 `json:"steps,omitempty" default:"1000000" crd:"yes"`
	// Memory is what one run may ask for in all, whether it keeps it or not, with the scripts that it calls.
	Memory Bytes `json:"memory,omitempty" default:"256MB" crd:"yes"`
	// Time bounds the time that one run is awake, over all its parts: while it sleeps or waits for people it is not. Of composite tools it is the time from beginning to end.
	Time Duration `json:"time,omitempty" default:"30m" crd:"yes"`
	// CallTimeout bounds one call of a tool.
	CallTimeout Duration `json:"callTimeout,omitempty" default:"5m" crd:"yes"`
	// Calls is the number of effects of one run that take time, with the scripts that it calls: tool calls, questions.
	Calls int `json:"calls,omitempty" default:"1000" crd:"yes"`
	// Parallel is the number of branches of one request that run at once, however parallel() is nested.
	Parallel int `json:"parallel,omitempty" default:"10" crd:"yes"`
	// Branches is the number of branches of one run, of all its parallel() together.
	Branches int `json:"branches,omitempty" default:"1000" crd:"yes"`
	// Nesting is how deep parallel calls nest.
	Nesting int `json:"nesting,omitempty" default:"8" crd:"yes"`
	// CallDepth is how deep functions of a script call each other.
	CallDepth int `json:"callDepth,omitempty" default:"200" crd:"yes"`
	// LoadDepth is how deep libraries load each other.
	LoadDepth int `json:"loadDepth,omitempty" default:"10" crd:"yes"`
	// Source is the size of one source file.
	Source Bytes `json:"source,omitempty" default:"256KB" crd:"yes"`
	// Program is the size of a file and all that it loads. The configuration has no field for it.
	Program Bytes `json:"program,omitempty" default:"1MB" config:"-" crd:"no"`
	// Result is the size of one tool result that a script reads.
	Result Bytes `json:"result,omitempty" default:"8MB" crd:"yes"`
	// Output is the size of the value that a script returns, and of what one effect of it sends.
	Output Bytes `json:"output,omitempty" default:"10MB" crd:"yes"`
	// Depth is how deep values nest that come in or go out as JSON. The configuration has no field for it.
	Depth int `json:"depth,omitempty" default:"100" config:"-" crd:"no"`
	// LogBytes is what one run may log; each line and each progress note counts 200 bytes more than its text.
	LogBytes Bytes `json:"logBytes,omitempty" default:"1MB" crd:"yes"`
	// ElicitTimeout is how long a question waits for its answer.
	ElicitTimeout Duration `json:"elicitTimeout,omitempty" default:"10m" crd:"yes"`
	// Lifetime bounds one run from its beginning to its end, with all the time that it sleeps or waits without computing.
	Lifetime Duration `json:"lifetime,omitempty" default:"30d" crd:"yes"`
}

// Defaults returns the limits of a run that sets none.
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

// Or returns l with the fields that are zero taken from base.
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

// SetText sets v, a string, a number, a truth value, a pointer to one of these or what can
// unmarshal text, to what a tag writes.
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
