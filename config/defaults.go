package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
)

// Default is the configuration of an empty file.
func Default() *Config {
	c := &Config{}
	c.Complete()
	return c
}

// Complete sets what was not set: the defaults, and what a backend or a tool takes
// from the general part. Parse has done it; a Config made in Go needs it. Calling
// it again changes nothing.
func (c *Config) Complete() {
	setDefaults(reflect.ValueOf(c).Elem())
	for i := range c.Backends {
		c.Backends[i].complete(&c.Operational.Timeouts)
	}
	for i := range c.ScriptedTools {
		c.ScriptedTools[i].complete(&c.Limits)
	}
}

func (b *Backend) complete(t *Timeouts) {
	if b.Transport == "" {
		b.Transport = "streamable-http"
		if b.Command != "" {
			b.Transport = "stdio"
		}
	}
	if b.Timeout == 0 {
		b.Timeout = t.PerWorkload[b.Name]
	}
	if b.Timeout == 0 {
		b.Timeout = t.Default
	}
}

// complete gives the tool limits that say everything.
func (t *ScriptedTool) complete(general *Limits) {
	own := Limits{}
	if t.Limits != nil {
		own = *t.Limits
	}
	if t.Timeout != 0 {
		own.Time = t.Timeout
	}
	from, to := reflect.ValueOf(general).Elem(), reflect.ValueOf(&own).Elem()
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	own.Runs, own.RunsPerPrincipal, own.TotalMemory = 0, 0, 0 // general only
	t.Limits, t.Timeout = &own, own.Time
}

// setDefaults fills the zero fields of v, a struct, from their default tags.
func setDefaults(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		field := v.Field(f.index)
		if f.fallback != "" && field.IsZero() {
			setText(field, f.fallback)
		}
		defaultsWithin(field)
	}
}

func defaultsWithin(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if _, raw := v.Interface().(Raw); !raw {
			setDefaults(v)
		}
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*CircuitBreaker]() && !v.IsNil() {
			setDefaults(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct || v.Type().Elem() == reflect.TypeFor[CompositeTool]() {
			return
		}
		for i := range v.Len() {
			setDefaults(v.Index(i))
		}
	}
}

// setText sets v to the value that a tag writes as text.
func setText(v reflect.Value, text string) {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText([]byte(text)); err != nil {
			panic(fmt.Sprintf("config: default %q: %v", text, err))
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	default:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("config: default %q: %v", text, err))
		}
		v.SetInt(n)
	}
}
