package meter

import (
	"fmt"

	"go.starlark.net/starlark"
)

// metered replaces a method of a built-in value, whether it is called immediately, kept as a value or obtained by
// getattr. Methods that are in no table here are native: they do no more than a step is worth.
type metered struct {
	// cost charges for a call of the native method.
	cost func(b *Budget, recv starlark.Value, args starlark.Tuple) error
	// call is called instead of the native method, if not nil.
	call func(b *Budget, c *call) (starlark.Value, error)
}

// call is one call of a metered function.
type call struct {
	name   string
	native *starlark.Builtin // bound
	recv   starlark.Value
	thread *starlark.Thread
	args   starlark.Tuple
	kwargs []starlark.Tuple
}

// pass calls the native function.
func (c *call) pass() (starlark.Value, error) {
	return c.native.CallInternal(c.thread, c.args, c.kwargs)
}

// wrong returns an error as the interpreter words it.
func (c *call) wrong(b *Budget, err error) error {
	if b.Final(err) {
		return err
	}
	return fmt.Errorf("%s: %v", c.name, err)
}

// method is a metered method bound to its value.
type method struct {
	*starlark.Builtin // the native one, bound
	metered
}

var _ starlark.Callable = (*method)(nil)

// CallInternal charges for the call and makes it.
func (m *method) CallInternal(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	b := Of(t)
	if m.call != nil {
		return m.call(b, &call{m.Name(), m.Builtin, m.Receiver(), t, args, kwargs})
	}
	if err := m.cost(b, m.Receiver(), args); err != nil {
		return nil, err
	}
	return m.Builtin.CallInternal(t, args, kwargs)
}

// view wraps a value between the operator that made it and the attribute that is read from it next.
type view struct{ starlark.HasAttrs }

// viewOf wraps x so that its methods are metered ones.
func (b *Budget) viewOf(x starlark.Value) (starlark.Value, error) {
	if methodsOf(x) == nil {
		return x, nil
	}
	b.ops.view.HasAttrs = x.(starlark.HasAttrs)
	return &b.ops.view, nil
}

func (v *view) Attr(name string) (starlark.Value, error) { return attr(v.HasAttrs, name) }

// attr returns x.name.
func attr(x starlark.HasAttrs, name string) (starlark.Value, error) {
	v, err := x.Attr(name)
	native, ok := v.(*starlark.Builtin)
	if !ok {
		return v, err
	}
	if m, ok := methodsOf(x)[name]; ok {
		return &method{native, m}, nil
	}
	return v, err
}

func methodsOf(x starlark.Value) map[string]metered {
	switch x.(type) {
	case starlark.String:
		return stringMethods
	case starlark.Bytes:
		return bytesMethods
	case *starlark.List:
		return listMethods
	case *starlark.Dict:
		return dictMethods
	case *starlark.Set:
		return setMethods
	}
	return nil
}

// isMetered reports whether some type has a metered method of that name.
func isMetered(name string) bool {
	for _, methods := range []map[string]metered{stringMethods, bytesMethods, listMethods, dictMethods, setMethods} {
		if _, ok := methods[name]; ok {
			return true
		}
	}
	return false
}
