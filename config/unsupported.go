package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/config/telemetry"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/limits"
)

// strict is how the file is read beyond what the tags of its structs say.
var strict = document.Rules{Code: code, Field: refusedField, Value: func(field, value string) string { return refusedValues[field][value] }}

// notYetSupported are fields of ToolHive's configuration that do not work here yet.
// They are refused by name: a field that is accepted works.
var notYetSupported = map[reflect.Type][]string{
	reflect.TypeFor[Config](): {
		"groupRef", "group", "authServer", "authServerConfig", "optimizer",
		"metadata", "embeddedBackends", "compositeToolRefs", "codeMode",
	},
	reflect.TypeFor[Backend](): {"metadata", "caBundlePath", "auth", "headerForward"},
	reflect.TypeFor[OutgoingStrategy](): {
		"upstreamInject", "awsSts", "obo", "xaa", "primaryUpstreamProvider", "externalAuthConfigRef", "subjectProviderName",
	},
	reflect.TypeFor[telemetry.Telemetry](): {"environmentVariables", "useLegacyAttributes"},
	reflect.TypeFor[TokenExchange]():       {"subjectProviderName"},
	reflect.TypeFor[OutgoingAuth]():        {"primaryUpstreamProvider"},
	reflect.TypeFor[WorkloadTools]():       {"toolConfigRef"},
	reflect.TypeFor[Operational]():         {"logLevel"},
	reflect.TypeFor[FailureHandling]():     {"healthCheckTimeout", "statusReportingInterval", "partialFailureMode"},
}

// refusedValues are values of ToolHive's configuration that are known and not supported, by
// field; each with the reason.
var refusedValues = map[string]map[string]string{
	"type": {
		"upstream_inject":          "upstream_inject is not supported: it needs an authorization server inside of the proxy, which this one has not",
		"aws_sts":                  "aws_sts is not supported: requests are not signed for AWS here",
		"obo":                      "obo is not supported; token_exchange is the standard form of it (RFC 8693)",
		"xaa":                      "xaa is not supported yet; token_exchange is",
		"external_auth_config_ref": "external_auth_config_ref is not supported: it names a Kubernetes resource; write the strategy here",
	},
	"source": {
		"discovered": "discovered is not supported: it needs Kubernetes, whose resources it reads; write the strategies under outgoingAuth.backends",
	},
}

// refusedField says why a field that t does not have is refused; "" where it is only unknown.
func refusedField(t reflect.Type, name string) string {
	if slices.Contains(notYetSupported[t], name) {
		return "is not supported yet; remove it"
	}
	if t != reflect.TypeFor[limits.Run]() {
		return ""
	}
	for _, f := range document.Fields(reflect.TypeFor[Limits]()) {
		if f.Name == name {
			return "holds for all tools together; move it to limits." + name
		}
	}
	return ""
}

// processKeys are what a configuration may say that is of a process, whatever this serves.
var processKeys = []string{
	"listen", "hosts", "origins", "trustedProxies", "tls", "admin", "sessionStorage", "cluster", "runs", "audit", "telemetry", "tokenStore",
	"operational.startup", "operational.shutdown", "limits.runs", "limits.totalMemory",
}

// BesideProcess are problems: what the file says that is not of the process alone. Objects say it where
// configurations come from these.
func (c *Config) BesideProcess() (found diag.Problems) {
	var last string
	for _, path := range slices.Sorted(maps.Keys(c.places)) {
		if path == "" || isProcess(path) || last != "" && isBelow(path, last) {
			continue
		}
		last = path
		found = append(found, diag.Problem{Pos: c.Place(path), Path: path, Code: "config",
			Message: "is not of the process: an object says it; here may be " + strings.Join(processKeys, ", ")})
	}
	return found
}

// isProcess reports whether a value is of the process, or holds one that is.
func isProcess(path string) bool {
	return slices.ContainsFunc(processKeys, func(key string) bool { return isBelow(path, key) || isBelow(key, path) })
}

// isBelow reports whether path is whole, or a part of it.
func isBelow(path, whole string) bool {
	rest, ok := strings.CutPrefix(path, whole)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
