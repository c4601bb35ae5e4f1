package crd

import (
	"reflect"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
)

// rules are constraints beyond types: members of the schema, and rules in CEL with a message.
type rules struct {
	with tree
	cel  []rule
}

// rule is one in CEL.
type rule struct{ expression, message string }

// put adds rules to a schema.
func put(s tree, r rules) {
	for name, value := range r.with {
		if name == "properties" { // of a package variable, which must not be changed
			value = clone(value.(tree))
		}
		s[name] = value
	}
	for _, one := range r.cel {
		all, _ := s["x-kubernetes-validations"].([]any)
		s["x-kubernetes-validations"] = append(all, tree{"rule": one.expression, "message": one.message})
	}
}

func clone(t tree) tree {
	out := tree{}
	for name, value := range t {
		out[name] = value
	}
	return out
}

// field is a field of a struct by its name in JSON.
type field struct {
	of   reflect.Type
	name string
}

const (
	toolName   = `^[a-zA-Z0-9_-]{1,64}$`
	headerName = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
)

// isObject declares the type of a JSON Schema so that CEL rules can read it. Its other members are preserved.
var isObject = rules{with: tree{"required": []string{"type"}, "properties": tree{"type": tree{"type": "string", "enum": []string{"object"}}}}}

// named are the rules for whole objects.
var named = map[object.Kind]rules{
	object.Server: {cel: []rule{{`!(self.metadata.name in ['mcp', 'healthz', 'health', 'readyz', 'metrics', 'oauth', 'api', 'debug', 'assets'])`,
		"metadata.name: the name is a path of the endpoint itself; want another name"}}},
	object.Entry: {cel: []rule{{`size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')`,
		"metadata.name: the name is that of a backend: want up to 63 letters, digits and -, without dots"}}},
}

// structures are the rules for structs.
var structures = map[reflect.Type]rules{
	reflect.TypeFor[object.ServerSpec](): {cel: []rule{
		{`has(self.groupRef) != has(self.from)`, "want exactly one of groupRef and from"},
		{`!has(self.groupRef) || has(self.incomingAuth)`, "incomingAuth is required: say {type: anonymous} to let everybody in who reaches the endpoint"},
		{`!has(self.from) || !has(self.config)`, "config: only with groupRef: with from the other object says it"},
	}},
	reflect.TypeFor[object.IncomingAuth](): {cel: []rule{
		{`self.type != 'oidc' || has(self.oidcConfigRef)`, "type oidc needs oidcConfigRef: the MCPOIDCConfig with the issuer"},
		{`self.type == 'oidc' || !has(self.oidcConfigRef)`, "oidcConfigRef: only with type: oidc"},
	}},
	reflect.TypeFor[object.AuthzConfig](): {cel: []rule{
		{`self.type != 'inline' || has(self.inline) && !has(self.configMap)`, "type inline needs inline, and no configMap"},
		{`self.type != 'configMap' || has(self.configMap) && !has(self.inline)`, "type configMap needs configMap, and no inline"},
	}},
	reflect.TypeFor[config.ScriptedTool](): {cel: []rule{{`has(self.script) != has(self.scriptFrom)`, "want exactly one of script and scriptFrom"}}},
	reflect.TypeFor[config.Library](): {cel: []rule{
		{`has(self.source) != has(self.sourceFrom)`, "want exactly one of source and sourceFrom"},
		{`has(self.name)`, "name: want what scripts load, such as helpers.star"},
	}},
	reflect.TypeFor[config.Aggregation](): {cel: []rule{
		{`!has(self.conflictResolution) || self.conflictResolution != 'priority' || has(self.conflictResolutionConfig) && has(self.conflictResolutionConfig.priorityOrder) && size(self.conflictResolutionConfig.priorityOrder) > 0`,
			"conflictResolutionConfig.priorityOrder: the priority strategy needs the backends, highest priority first"},
		{`!has(self.conflictResolutionConfig) || !has(self.conflictResolutionConfig.priorityOrder) || has(self.conflictResolution) && self.conflictResolution == 'priority'`,
			"conflictResolutionConfig.priorityOrder: only for conflictResolution: priority"},
	}},
	reflect.TypeFor[config.HeaderInjection](): {cel: []rule{{`has(self.headerValue) != has(self.valueSecretRef)`, "want exactly one of valueSecretRef and headerValue"}}},
	reflect.TypeFor[config.Bucket]():          {cel: []rule{{`has(self.maxTokens) == has(self.refillPeriod)`, "want both maxTokens and refillPeriod"}}},
}

// fields are the rules for fields.
var fields = map[field]rules{
	{reflect.TypeFor[config.Config](), "name"}:                 {with: tree{"description": "The server name shown to clients. Default: the name of the object."}},
	{reflect.TypeFor[config.ScriptedTool](), "name"}:           {with: tree{"pattern": toolName, "maxLength": 64}},
	{reflect.TypeFor[config.ScriptedTool](), "script"}:         {with: tree{"minLength": 1}},
	{reflect.TypeFor[config.ScriptedTool](), "entry"}:          {with: tree{"pattern": `^[\p{L}_][\p{L}\p{Nd}_]{0,127}$`}},
	{reflect.TypeFor[config.ScriptedTool](), "parameters"}:     isObject,
	{reflect.TypeFor[config.ScriptedTool](), "output"}:         isObject,
	{reflect.TypeFor[config.ToolOverride](), "name"}:           {with: tree{"pattern": toolName, "maxLength": 64}},
	{reflect.TypeFor[config.Profile](), "name"}:                {with: tree{"pattern": `^[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}$`}},
	{reflect.TypeFor[config.Profile](), "workloads"}:           {with: tree{"minItems": 1}},
	{reflect.TypeFor[config.Profile](), "tools"}:               {with: tree{"minItems": 1}},
	{reflect.TypeFor[config.Profile](), "maxTools"}:            {with: tree{"minimum": 1}},
	{reflect.TypeFor[config.PromptOverride](), "name"}:         {with: tree{"pattern": toolName, "maxLength": 64}},
	{reflect.TypeFor[config.HeaderInjection](), "headerName"}:  {with: tree{"pattern": headerName}},
	{reflect.TypeFor[object.HeaderFromSecret](), "headerName"}: {with: tree{"pattern": headerName}},
	{reflect.TypeFor[object.InlineAuthz](), "policies"}:        {with: tree{"minItems": 1}},
	{reflect.TypeFor[workflow](), "name"}:                      {with: tree{"pattern": toolName}},
	{reflect.TypeFor[workflow](), "steps"}:                     {with: tree{"minItems": 1}},
	{reflect.TypeFor[onError](), "retryCount"}:                 {with: tree{"minimum": 0}},
	{reflect.TypeFor[step](), "maxParallel"}:                   {with: tree{"minimum": 0}},
	{reflect.TypeFor[step](), "maxIterations"}:                 {with: tree{"minimum": 0}},
	// A writer says 0 explicitly where others have written another generation.
	{reflect.TypeFor[object.Status](), "appliedGeneration"}: {with: tree{"minimum": 0}},
	{reflect.TypeFor[object.EntrySpec](), "remoteUrl"}: {cel: []rule{
		{`isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != ''`, "want a URL that begins with http:// or https://"},
		{`!self.matches('(?i)^[a-z]+://([^/@]*@)?(169[.]254[.]|\\[fe[89ab][0-9a-f]:|\\[::ffff:(169[.]254[.]|a9fe:))')`,
			"link-local addresses are refused: among them are those that hand out credentials of the machine"},
	}},
}
