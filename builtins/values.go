package builtins

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// jsonObject makes a JSON object from the arguments for a tool; nil becomes {}.
func jsonObject(t *starlark.Thread, v starlark.Value) (json.RawMessage, error) {
	switch v.(type) {
	case nil, starlark.NoneType:
		return json.RawMessage("{}"), nil
	case starlark.IterableMapping:
		return script.EncodeIn(t, v, script.RunOf(t).Limits().Depth)
	}
	return nil, fmt.Errorf("want a dict, have %s", v.Type())
}

// Duration returns a length of time: "1m30s", "2d", or a number of seconds; fallback for None.
func Duration(v starlark.Value, fallback time.Duration) (time.Duration, error) {
	switch v := v.(type) {
	case nil, starlark.NoneType:
		return fallback, nil
	case starlark.String:
		d, err := script.ParseDuration(string(v))
		if err != nil || d < 0 {
			return 0, fmt.Errorf(`want a duration such as "30s", "5m" or "2d", have %s`, v)
		}
		return d, nil
	case starlark.Int, starlark.Float:
		return seconds(v)
	}
	return 0, fmt.Errorf(`want a duration such as "30s", "5m" or "2d", have %s`, v.Type())
}

func seconds(v starlark.Value) (time.Duration, error) {
	f, ok := starlark.AsFloat(v)
	const most = float64(1<<63-1) / float64(time.Second)
	if !ok || !(f >= 0 && f < most) {
		return 0, errors.New("want a number of seconds that is not negative")
	}
	return time.Duration(f * float64(time.Second)), nil
}
