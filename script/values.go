package script

import (
	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// DecodeIn makes a Starlark value from one JSON text. The run of t is charged while the text is read and the value is
// built.
//
// Objects become dicts in the order of the text, arrays become lists, integers exact ints (up to 4096 digits), numbers
// with a fraction or an exponent floats. A key that occurs twice keeps its first place and its last value. Bytes that
// are not UTF-8 and lone surrogates become U+FFFD, as in encoding/json.
func DecodeIn(t *starlark.Thread, data []byte, maxDepth int) (starlark.Value, error) {
	return meter.DecodeIn(t, data, maxDepth)
}

// EncodeIn is Encode on the budget of the run of t, which is charged while the text is written, so that also work that
// ends in an error is paid for.
func EncodeIn(t *starlark.Thread, v starlark.Value, maxDepth int) ([]byte, error) {
	return meter.EncodeIn(t, v, maxDepth)
}

// Encode makes JSON of a Starlark value, in the order of the value.
//
// Dicts (with string keys) and structs become objects; lists, tuples, sets, ranges and other iterables arrays. A float
// keeps its fraction ("1.0"), so that DecodeIn returns a float again. Bytes, functions, NaN, infinities and values
// that contain themselves are refused; the error has the path to them.
//
// The text may be maxBytes long, or the error is a *TooLongError, and maxDepth levels deep. Every value takes at least
// one byte, so maxBytes bounds the work too, however often a value shares its parts.
func Encode(v starlark.Value, maxBytes int64, maxDepth int) ([]byte, error) {
	return meter.Encode(v, maxBytes, maxDepth)
}

// TooLongError says that the JSON text of a value is longer than its bound.
type TooLongError = meter.TooLongError

// Charge takes n bytes from the memory of the run of t. A builtin charges before it allocates.
func Charge(t *starlark.Thread, n int64) error {
	if b := meter.Of(t); b != nil {
		return b.Charge(n)
	}
	return nil
}

// Work takes n steps from the run of t. A builtin takes them for work that grows with its arguments; a step is worth
// about a microsecond.
func Work(t *starlark.Thread, n int64) error {
	if b := meter.Of(t); b != nil {
		return b.Work(n)
	}
	return nil
}

// bytesPerStep is how much of a text that is passed to a builtin is worth a step.
const bytesPerStep = 64

// NewBuiltin returns a builtin that takes steps for the texts that it is called with, before f looks at them: reading one
// once, or quoting it in an error, is paid for, whatever else f takes.
func NewBuiltin(name string, f func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error)) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		n := textBytes(args)
		for _, kv := range kwargs {
			n += textBytes(kv)
		}
		if err := Work(t, n/bytesPerStep); err != nil {
			return nil, err
		}
		return f(t, fn, args, kwargs)
	})
}

// textBytes returns how long the texts among values are together.
func textBytes(values starlark.Tuple) (n int64) {
	for _, v := range values {
		switch v := v.(type) {
		case starlark.String:
			n += int64(len(v))
		case starlark.Bytes:
			n += int64(len(v))
		}
	}
	return n
}
