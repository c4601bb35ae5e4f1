package builtins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script"
)

// timeModule has the clock, as an effect, and arithmetic with times. All times are UTC: time zone data differs between
// machines.
var timeModule = &starlarkstruct.Module{Name: "time", Members: starlark.StringDict{
	"now":            script.NewBuiltin("time.now", timeNow),
	"parse":          script.NewBuiltin("time.parse", timeParse),
	"from_timestamp": script.NewBuiltin("time.from_timestamp", timeFromTimestamp),
	"duration":       script.NewBuiltin("time.duration", timeDuration),
	"second":         startime.Duration(time.Second),
	"minute":         startime.Duration(time.Minute),
	"hour":           startime.Duration(time.Hour),
}}

// sleep implements sleep(duration).
func sleep(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var length starlark.Value
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "duration", &length); err != nil {
		return nil, err
	}
	d, err := Duration(length, 0)
	if err != nil {
		return nil, fmt.Errorf("sleep: %w", err)
	}
	e := script.Effect{Kind: "sleep", Name: d.String(), Repeatable: true, Free: true, Sleep: true, Lasts: d}
	_, err = script.RunOf(t).Do(t, e, nil)
	return starlark.None, err
}

func timeNow(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs); err != nil {
		return nil, err
	}
	e := script.Effect{Kind: "now", Instant: true, Repeatable: true}
	raw, err := script.RunOf(t).Do(t, e, func(ctx context.Context) (json.RawMessage, error) {
		return json.Marshal(script.Now(ctx).UTC())
	})
	if err != nil {
		return nil, err
	}
	var now time.Time
	if err := json.Unmarshal(raw, &now); err != nil {
		return nil, fmt.Errorf("time.now: %w", err)
	}
	return moment{now}, nil
}

func timeParse(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	layout := time.RFC3339
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "text", &text, "format?", &layout); err != nil {
		return nil, err
	}
	if err := shortText(text, layout); err != nil {
		return nil, fmt.Errorf("time.parse: %w", err)
	}
	v, err := time.Parse(layout, text)
	if err != nil {
		return nil, fmt.Errorf("time.parse: %w", err)
	}
	return moment{v.UTC()}, nil
}

func timeFromTimestamp(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var sec, nano int64
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "seconds", &sec, "nanoseconds?", &nano); err != nil {
		return nil, err
	}
	return moment{time.Unix(sec, nano).UTC()}, nil
}

func timeDuration(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "duration", &v); err != nil {
		return nil, err
	}
	d, err := signedDuration(v)
	if err != nil {
		return nil, fmt.Errorf("time.duration: %w", err)
	}
	return startime.Duration(d), nil
}

// signedDuration returns a duration, which may be negative.
func signedDuration(v starlark.Value) (time.Duration, error) {
	s, ok := v.(starlark.String)
	if !ok {
		return Duration(v, 0)
	}
	d, err := script.ParseDuration(string(s))
	if err != nil {
		return 0, fmt.Errorf(`want a duration such as "30s" or "-5m", have %s`, v)
	}
	return d, nil
}

// shortText refuses layouts and times that are too long to be valid.
func shortText(texts ...string) error {
	const most = 1000
	for _, s := range texts {
		if len(s) > most {
			return fmt.Errorf("a string of %d bytes; at most %d are accepted", len(s), most)
		}
	}
	return nil
}

// moment is a point in time, always UTC.
type moment struct{ time time.Time }

func (m moment) String() string       { return m.time.Format(time.RFC3339Nano) }
func (m moment) Type() string         { return "time.time" }
func (m moment) Freeze()              {}
func (m moment) Truth() starlark.Bool { return starlark.Bool(!m.time.IsZero()) }
func (m moment) Hash() (uint32, error) {
	return uint32(m.time.UnixNano()) ^ uint32(m.time.Unix()>>32), nil
}

// AttrNames lists the attributes.
func (m moment) AttrNames() []string {
	return []string{"day", "format", "hour", "minute", "month", "nanosecond", "second", "unix", "unix_nano", "weekday", "year"}
}

// Attr returns one attribute; nil when there is none of that name.
func (m moment) Attr(name string) (starlark.Value, error) {
	switch name {
	case "year":
		return starlark.MakeInt(m.time.Year()), nil
	case "month":
		return starlark.MakeInt(int(m.time.Month())), nil
	case "day":
		return starlark.MakeInt(m.time.Day()), nil
	case "hour":
		return starlark.MakeInt(m.time.Hour()), nil
	case "minute":
		return starlark.MakeInt(m.time.Minute()), nil
	case "second":
		return starlark.MakeInt(m.time.Second()), nil
	case "nanosecond":
		return starlark.MakeInt(m.time.Nanosecond()), nil
	case "weekday":
		return starlark.String(m.time.Weekday().String()), nil
	case "unix":
		return starlark.MakeInt64(m.time.Unix()), nil
	case "unix_nano":
		return starlark.MakeInt64(m.time.UnixNano()), nil
	case "format":
		return script.NewBuiltin("format", momentFormat).BindReceiver(m), nil
	}
	return nil, nil
}

func momentFormat(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	layout := time.RFC3339
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "layout?", &layout); err != nil {
		return nil, err
	}
	if err := shortText(layout); err != nil {
		return nil, fmt.Errorf("format: %w", err)
	}
	text := fn.Receiver().(moment).time.Format(layout)
	return starlark.String(text), script.Charge(t, int64(len(text)))
}

// Cmp compares points in time.
func (m moment) Cmp(y starlark.Value, _ int) (int, error) {
	return m.time.Compare(y.(moment).time), nil
}

// Binary implements time ± duration and time - time.
func (m moment) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	switch y := y.(type) {
	case startime.Duration:
		switch {
		case op == syntax.PLUS:
			return m.add(time.Duration(y))
		case op == syntax.MINUS && side == starlark.Left:
			return m.add(-time.Duration(y))
		}
	case moment:
		if op == syntax.MINUS {
			return startime.Duration(m.time.Sub(y.time)), nil
		}
	}
	return nil, nil
}

func (m moment) add(d time.Duration) (starlark.Value, error) {
	sum := m.time.Add(d)
	if year := sum.Year(); year < 0 || year > 9999 {
		return nil, errors.New("time: the year is out of range")
	}
	return moment{sum}, nil
}
