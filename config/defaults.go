package config

import (
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

// Complete sets the fields that are not set: to their defaults, and those of backends and
// tools to the general settings. Parse calls it; a Config made in Go needs it. Calling it
// again writes nothing, so that two proxies may serve the same Config concurrently.
func (c *Config) Complete() {
	setDefaults(reflect.ValueOf(c).Elem())
	for i := range c.Backends {
		c.Backends[i].complete(&c.Operational.Timeouts)
		c.Backends[i].completeOutgoing(&c.OutgoingAuth)
	}
	if a := &c.IncomingAuth.Authz; a.Type == "" {
		a.Type = map[bool]string{true: "cedar", false: "none"}[a.hasPolicies()]
	}
	for i := range c.ScriptedTools {
		c.ScriptedTools[i].complete(c)
	}
}

func (b *Backend) complete(t *Timeouts) {
	if b.Transport == "" && b.Command != "" {
		b.Transport = "stdio"
	}
	setDefault(&b.Timeout, t.PerWorkload[b.Name])
	setDefault(&b.Timeout, t.Default)
}

// complete sets all limits of the tool, and its settings of runs.
func (t *ScriptedTool) complete(c *Config) {
	setDefault(&t.Durable, c.Runs.Durable)
	setDefault(&t.OnDoubt, c.Runs.OnDoubt)
	setDefault(&t.OnDisconnect, c.Runs.OnDisconnect)
	own := limits.Run{}
	if t.Limits != nil {
		own = *t.Limits
	}
	if t.Timeout != 0 {
		own.Time = t.Timeout
	}
	own = own.Or(c.Limits.Run)
	if t.Limits == nil || *t.Limits != own {
		t.Limits = &own
	}
	setDefault(&t.Timeout, own.Time)
}

func setDefault[T comparable](v *T, def T) {
	var unset T
	if *v == unset && def != unset {
		*v = def
	}
}

// setDefaults fills the zero fields of v, a struct, from their default tags.
func setDefaults(v reflect.Value) {
	for _, f := range document.Fields(v.Type()) {
		field := v.FieldByIndex(f.Index)
		if f.Default != "" && field.IsZero() {
			def := reflect.New(field.Type()).Elem()
			if err := limits.SetText(def, f.Default); err != nil {
				panic(fmt.Sprintf("config: default of %s: %v", f.Name, err))
			}
			if !def.IsZero() {
				field.Set(def)
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
