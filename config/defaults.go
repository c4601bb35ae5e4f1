package config

import (
	"cmp"
	"fmt"
	"reflect"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/limits"
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
		c.Backends[i].completeOutgoing(&c.OutgoingAuth)
	}
	for i := range c.ScriptedTools {
		c.ScriptedTools[i].complete(c)
	}
}

func (b *Backend) complete(t *Timeouts) {
	if b.Transport == "" && b.Command != "" {
		b.Transport = "stdio"
	}
	if b.Timeout == 0 {
		b.Timeout = t.PerWorkload[b.Name]
	}
	if b.Timeout == 0 {
		b.Timeout = t.Default
	}
}

// complete gives the tool limits that say everything, and what is general of runs.
func (t *ScriptedTool) complete(c *Config) {
	t.Durable = cmp.Or(t.Durable, c.Runs.Durable)
	t.OnDoubt = cmp.Or(t.OnDoubt, c.Runs.OnDoubt)
	t.OnDisconnect = cmp.Or(t.OnDisconnect, c.Runs.OnDisconnect)
	own := limits.Run{}
	if t.Limits != nil {
		own = *t.Limits
	}
	if t.Timeout != 0 {
		own.Time = t.Timeout
	}
	own = own.Or(c.Limits.Run)
	t.Limits, t.Timeout = &own, own.Time
}

// setDefaults fills the zero fields of v, a struct, from their default tags.
func setDefaults(v reflect.Value) {
	for _, f := range document.Fields(v.Type()) {
		field := v.FieldByIndex(f.Index)
		if f.Default != "" && field.IsZero() {
			if err := limits.SetText(field, f.Default); err != nil {
				panic(fmt.Sprintf("config: default of %s: %v", f.Name, err))
			}
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
