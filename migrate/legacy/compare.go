package legacy

import (
	"fmt"
	"reflect"

	"go.starlark.net/starlark"
)

// comparisons compare as templates do: only values of the same kind; a number of
// JSON is of another kind than an integer of the YAML file.
var comparisons = map[string]function{
	"eq": comparison("eq", func(a any, others []any) (bool, error) {
		for _, b := range others {
			if equal, err := templateEqual(a, b); equal || err != nil {
				return equal, err
			}
		}
		return false, nil
	}),
	"ne": comparison("ne", func(a any, b []any) (bool, error) {
		equal, err := templateEqual(a, b[0])
		return !equal, err
	}),
	"lt": comparison("lt", func(a any, b []any) (bool, error) { return templateLess(a, b[0]) }),
	"le": comparison("le", func(a any, b []any) (bool, error) { return lessOrEqual(a, b[0]) }),
	"gt": comparison("gt", func(a any, b []any) (bool, error) {
		is, err := lessOrEqual(a, b[0])
		return err == nil && !is, err
	}),
	"ge": comparison("ge", func(a any, b []any) (bool, error) {
		is, err := templateLess(a, b[0])
		return err == nil && !is, err
	}),
}

func comparison(name string, f func(a any, others []any) (bool, error)) function {
	return pure(name, true, func(_ *starlark.Thread, args []any) (starlark.Value, error) {
		if len(args) < 2 {
			return nil, fmt.Errorf("%s: want two values", name)
		}
		is, err := f(args[0], args[1:])
		if err != nil {
			return nil, refuse("error calling %s: %v", name, err)
		}
		return starlark.Bool(is), nil
	})
}

// basicKind returns the kind of values that can be compared, or reflect.Invalid.
func basicKind(v any) reflect.Kind {
	switch v.(type) {
	case bool:
		return reflect.Bool
	case int, uint64, uint8:
		return reflect.Int
	case float64:
		return reflect.Float64
	case string:
		return reflect.String
	}
	return reflect.Invalid
}

func templateEqual(a, b any) (bool, error) {
	ka, kb := basicKind(a), basicKind(b)
	switch {
	case ka != kb && a != nil && b != nil:
		return false, fmt.Errorf("incompatible types for comparison: %T and %T", a, b)
	case ka != kb:
		return false, nil
	case ka != reflect.Invalid:
		return wide(a) == wide(b), nil
	case a != nil && b != nil && reflect.TypeOf(a).Kind() != reflect.TypeOf(b).Kind():
		return false, fmt.Errorf("non-comparable types %s: %T, %T: %v", a, a, b, b)
	case isNil(a) || isNil(b):
		return isNil(a) == isNil(b), nil
	}
	return false, fmt.Errorf("non-comparable type %s: %T", b, b)
}

func isNil(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return v == nil
	}
	return false
}

var errNotComparable = fmt.Errorf("invalid type for comparison")

func templateLess(a, b any) (bool, error) {
	ka, kb := basicKind(a), basicKind(b)
	switch {
	case ka == reflect.Invalid || kb == reflect.Invalid:
		return false, errNotComparable
	case ka != kb:
		return false, fmt.Errorf("incompatible types for comparison: %T and %T", a, b)
	}
	b = wide(b)
	switch a := wide(a).(type) {
	case float64:
		return a < b.(float64), nil
	case string:
		return a < b.(string), nil
	case int, uint64:
		return intLess(a, b), nil
	}
	return false, errNotComparable
}

func lessOrEqual(a, b any) (bool, error) {
	if less, err := templateLess(a, b); less || err != nil {
		return less, err
	}
	return templateEqual(a, b)
}

// wide converts a byte of a text to an int.
func wide(v any) any {
	if n, ok := v.(uint8); ok {
		return int(n)
	}
	return v
}

// intLess compares integers that may be too large for an int.
func intLess(a, b any) bool {
	x, small := a.(int)
	y, alsoSmall := b.(int)
	switch {
	case small && alsoSmall:
		return x < y
	case small:
		return true
	case alsoSmall:
		return false
	}
	return a.(uint64) < b.(uint64)
}
