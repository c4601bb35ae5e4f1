package script

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// This part of the package collects and prints the calls in a script that led to an error, through all branches.

// trace returns the frames of err, and of the branches inside it. Where a builtin returned an error of a function that
// it called, both errors have the enclosing frames, which are returned once. isBranch reports whether an error is that
// of a branch, which has separate frames below.
func trace(err error, isBranch func(error) bool) (frames []starlark.CallFrame, suffix string) {
	thread := 0 // where the frames of the present branch begin
	for ; err != nil; err = errors.Unwrap(err) {
		if isBranch(err) {
			thread = len(frames)
		}
		eval := evalError(err)
		if eval == nil {
			continue
		}
		if around := frames[thread:]; len(around) <= len(eval.CallStack) && slices.EqualFunc(around, eval.CallStack[:len(around)], sameFrame) {
			frames = frames[:thread]
		}
		frames = append(frames, eval.CallStack...)
		suffix = ""
		if n := len(frames); n > 0 && !inScript(frames[n-1]) && !hidden(frames[n-1]) {
			suffix = " in " + frames[n-1].Name
		}
	}
	return frames, suffix
}

func sameFrame(a, b starlark.CallFrame) bool {
	return a.Name == b.Name && a.Pos.String() == b.Pos.String()
}

// evalError returns the interpreter's error that err is or wraps directly, or nil.
func evalError(err error) *starlark.EvalError {
	switch err := err.(type) {
	case *starlark.EvalError:
		return err
	case *meter.Stopped:
		return err.Eval
	}
	return nil
}

// write returns the text of frames, with msg as the error.
func write(frames []starlark.CallFrame, suffix, msg string) string {
	var lines []string
	for _, f := range frames {
		if inScript(f) {
			lines = append(lines, "  "+display.ClipText(fmt.Sprintf("%s: in %s", f.Pos, f.Name), maxCall)+"\n")
		}
	}
	inner := slices.Clone(lines)
	slices.Reverse(inner)
	first := fitting(lines)
	last := min(fitting(inner), len(lines)-first)
	var b strings.Builder
	b.WriteString("Traceback (most recent call last):\n")
	b.WriteString(strings.Join(lines[:first], ""))
	if left := len(lines) - first - last; left > 0 {
		fmt.Fprintf(&b, "  ... %d calls ...\n", left)
	}
	b.WriteString(strings.Join(lines[len(lines)-last:], ""))
	fmt.Fprintf(&b, "Error%s: %s", suffix, msg)
	return b.String()
}

// The calls of a backtrace have at most maxTrace bytes, the outermost and the innermost ones; each has at most maxCall.
const (
	maxTrace = 64 << 10
	maxCall  = 1 << 10
)

// fitting returns how many of the first lines half of maxTrace has room for.
func fitting(lines []string) int {
	room := maxTrace / 2
	for i, line := range lines {
		if room -= len(line); room < 0 {
			return i
		}
	}
	return len(lines)
}

// inScript reports whether f is a frame of a script, not of a builtin.
func inScript(f starlark.CallFrame) bool { return f.Pos.Line > 0 }

// hidden reports whether f is a frame of an operation that the script did not write.
func hidden(f starlark.CallFrame) bool { return strings.HasPrefix(f.Name, "$") }
