package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/limits"
)

// strict are the rules of decoding the file beyond the tags of its structs.
var strict = document.Rules{Code: code, Field: refusedField, Value: func(field, value string) string { return refusedValues[field][value] }}

// notYetSupported are fields of ToolHive's configuration that do not work here yet.
// They are refused by name: every accepted field has an effect.
var notYetSupported = map[reflect.Type][]string{
	reflect.TypeFor[Config](): {
		"groupRef", "group", "authServer", "authServerConfig", "optimizer",
		"metadata", "embeddedBackends", "compositeToolRefs", "codeMode",
	},
	reflect.TypeFor[Backend](): {"metadata", "caBundlePath", "auth", "headerForward"},
	reflect.TypeFor[OutgoingStrategy](): {
		"upstreamInject", "awsSts", "obo", "xaa", "primaryUpstreamProvider", "externalAuthConfigRef", "subjectProviderName",
	},
	reflect.TypeFor[Telemetry]():       {"environmentVariables", "useLegacyAttributes"},
	reflect.TypeFor[TokenExchange]():   {"subjectProviderName"},
	reflect.TypeFor[OutgoingAuth]():    {"primaryUpstreamProvider"},
	reflect.TypeFor[WorkloadTools]():   {"toolConfigRef"},
	reflect.TypeFor[Operational]():     {"logLevel"},
	reflect.TypeFor[FailureHandling](): {"healthCheckTimeout", "statusReportingInterval", "partialFailureMode"},
}

// refusedValues are values of ToolHive's configuration that are known and not supported, by
// field, with the reason.
var refusedValues = map[string]map[string]string{
	"type": {
		"upstream_inject":          "upstream_inject is not supported: it needs an authorization server in the proxy, and this one has none",
		"aws_sts":                  "aws_sts is not supported: requests are not signed for AWS here",
		"obo":                      "obo is not supported; token_exchange is the standard form of it (RFC 8693)",
		"xaa":                      "xaa is not supported yet; token_exchange is",
		"external_auth_config_ref": "external_auth_config_ref is not supported: it names a Kubernetes resource; write the strategy here",
	},
	"source": {
		"discovered": "discovered is not supported: it needs Kubernetes, whose resources it reads; write the strategies under outgoingAuth.backends",
	},
}

// refusedField returns why a field that t does not have is refused; "" if it is only unknown.
func refusedField(t reflect.Type, name string) string {
	if slices.Contains(notYetSupported[t], name) {
		return "is not supported yet; remove it"
	}
	if t != reflect.TypeFor[limits.Run]() {
		return ""
	}
	for _, f := range document.Fields(reflect.TypeFor[Limits]()) {
		if f.Name == name {
			return "applies to all tools together; move it to limits." + name
		}
	}
	return ""
}

// processKeys are the keys of a configuration that belong to the process.
var processKeys = []string{
	"listen", "hosts", "origins", "trustedProxies", "tls", "admin", "sessionStorage", "cluster", "runs", "audit", "telemetry", "tokenStore",
	"operational.startup", "operational.shutdown", "limits.runs", "limits.totalMemory",
}

// BesideProcess reports the settings of the file that do not belong to the process, as problems. With
// vmcp serve --kubernetes objects have them.
func (c *Config) BesideProcess() (found diag.Problems) {
	var last string
	for _, path := range slices.Sorted(maps.Keys(c.places)) {
		if path == "" || isProcess(path) || last != "" && isBelow(path, last) {
			continue
		}
		last = path
		found = append(found, diag.Problem{Pos: c.Place(path), Path: path, Code: "config",
			Message: "does not belong to the process: set it in an object; a file for --kubernetes may have " + strings.Join(processKeys, ", ")})
	}
	return found
}

// isProcess reports whether a key belongs to the process, or contains one that does.
func isProcess(path string) bool {
	return slices.ContainsFunc(processKeys, func(key string) bool { return isBelow(path, key) || isBelow(key, path) })
}

// isBelow reports whether path is whole, or below it.
func isBelow(path, whole string) bool {
	rest, ok := strings.CutPrefix(path, whole)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
