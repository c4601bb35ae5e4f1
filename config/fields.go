package config

import (
	"reflect"
	"strings"
	"sync"
)

// field is a field of a struct as its tags describe it.
type field struct {
	index    []int  // as of reflect.VisibleFields
	name     string // in YAML
	required bool
	enum     []string
	fallback string // its default
}

var fieldCache sync.Map // reflect.Type → []field

// fieldsOf lists the fields of struct type t, those of an embedded struct as its own.
func fieldsOf(t reflect.Type) []field {
	if cached, ok := fieldCache.Load(t); ok {
		return cached.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			continue
		}
		if sf.Anonymous {
			for _, f := range fieldsOf(sf.Type) {
				f.index = append([]int{i}, f.index...)
				fields = append(fields, f)
			}
			continue
		}
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" || sf.Tag.Get("config") == "-" {
			continue // not of the file
		}
		f := field{index: []int{i}, name: name, required: options == "", fallback: sf.Tag.Get("default")}
		if enum := sf.Tag.Get("enum"); enum != "" {
			f.enum = strings.Split(enum, ",")
		}
		fields = append(fields, f)
	}
	fieldCache.Store(t, fields)
	return fields
}

func fieldNamed(t reflect.Type, name string) (field, bool) {
	for _, f := range fieldsOf(t) {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// notYetSupported are fields of ToolHive's configuration that do not work here yet.
// They are refused by name: a field that is accepted works.
var notYetSupported = map[reflect.Type][]string{
	reflect.TypeFor[Config](): {
		"groupRef", "group", "authServer", "authServerConfig", "telemetry", "optimizer",
		"sessionStorage", "metadata", "embeddedBackends", "compositeToolRefs", "codeMode",
	},
	reflect.TypeFor[Backend](): {"metadata", "caBundlePath", "auth", "headerForward"},
	reflect.TypeFor[OutgoingStrategy](): {
		"upstreamInject", "awsSts", "obo", "xaa", "primaryUpstreamProvider", "externalAuthConfigRef", "subjectProviderName",
	},
	reflect.TypeFor[TokenExchange]():   {"subjectProviderName"},
	reflect.TypeFor[OutgoingAuth]():    {"primaryUpstreamProvider"},
	reflect.TypeFor[WorkloadTools]():   {"toolConfigRef"},
	reflect.TypeFor[Operational]():     {"logLevel"},
	reflect.TypeFor[FailureHandling](): {"healthCheckTimeout", "statusReportingInterval", "partialFailureMode"},
}

func notYet(t reflect.Type, name string) bool {
	for _, n := range notYetSupported[t] {
		if n == name {
			return true
		}
	}
	return false
}
