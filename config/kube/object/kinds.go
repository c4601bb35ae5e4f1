// Package object has the objects of Kubernetes that configure vmcp: their kinds, specs, status and conditions,
// and reads them strictly, from the JSON of an API server or from the manifests of a file. What an object can say
// of a configuration is the structs of package config, those fields whose tag crd says yes.
//
//	o, err := object.Decode[object.ServerSpec](data) // JSON of one VirtualMCPServer
//	o.Problems                                       // what is wrong with its spec
//
// Values are never expanded: ${…} stays as it is written.
package object

import (
	"github.com/vmcp-dev/vmcp/config"
)

// The group and version of the kinds.
const (
	Group      = "vmcp.dev"
	Version    = "v1alpha1"
	APIVersion = Group + "/" + Version
	// Category is what kubectl get takes for all kinds.
	Category = "vmcp-dev"
	// ToolHiveGroup is the group of ToolHive's kinds.
	ToolHiveGroup = "toolhive.stacklok.dev"
)

// Kind is a kind of objects, as a CustomResourceDefinition names it.
type Kind struct {
	Name, Plural, Singular, ShortName string
}

// The kinds.
var (
	Server    = Kind{"VirtualMCPServer", "virtualmcpservers", "virtualmcpserver", "vmcpsrv"}
	Scripted  = Kind{"VirtualMCPScriptedToolDefinition", "virtualmcpscriptedtooldefinitions", "virtualmcpscriptedtooldefinition", "vmcpst"}
	Composite = Kind{"VirtualMCPCompositeToolDefinition", "virtualmcpcompositetooldefinitions", "virtualmcpcompositetooldefinition", "vmcpct"}
	Entry     = Kind{"MCPServerEntry", "mcpserverentries", "mcpserverentry", "vmcpentry"}
)

// Kinds are all of them.
var Kinds = []Kind{Server, Scripted, Composite, Entry}

// Object is one object of a kind whose spec is S.
type Object[S Spec] struct {
	Meta
	Spec S
	// Status is what the object said when it was read.
	Status Status
	// Problems are what is wrong with the spec by itself, with paths that begin with spec. Such an object is not
	// used.
	Problems Problems

	text *text
}

// Spec is the spec of one of the kinds.
type Spec interface {
	ServerSpec | EntrySpec | ScriptedSpec | CompositeSpec
}

// The kinds of objects.
type (
	// VirtualMCPServer is an endpoint: what its config says, over the backends of its group.
	VirtualMCPServer = Object[ServerSpec]
	// MCPServerEntry is a backend of every VirtualMCPServer with the same groupRef.
	MCPServerEntry = Object[EntrySpec]
	// VirtualMCPScriptedToolDefinition is a scripted tool that servers refer to.
	VirtualMCPScriptedToolDefinition = Object[ScriptedSpec]
	// VirtualMCPCompositeToolDefinition is a workflow in ToolHive's format that servers refer to.
	VirtualMCPCompositeToolDefinition = Object[CompositeSpec]
)

// ServerSpec is the spec of a VirtualMCPServer. Exactly one of groupRef and from is set.
type ServerSpec struct {
	// GroupRef names the group of the backends: every MCPServerEntry that names the same one. A group is only a name.
	GroupRef *config.NameRef `json:"groupRef,omitempty" crd:"yes"`
	// From names an object of another product that says what this one would.
	From *From `json:"from,omitempty" crd:"yes"`
	// IncomingAuth says who may come in. It is required with groupRef; beside from it replaces what the other object says.
	IncomingAuth *IncomingAuth `json:"incomingAuth,omitempty" crd:"yes"`
	// Config is the configuration of the server.
	Config config.Config `json:"config,omitempty" crd:"yes"`
}

// From names an object of another product.
type From struct {
	// ToolHive is the name of a VirtualMCPServer of ToolHive (toolhive.stacklok.dev/v1beta1) in the same namespace. It is read, and never changed.
	ToolHive string `json:"toolhive" crd:"yes" max:"253"`
}

// The types of IncomingAuth.
const (
	Anonymous = "anonymous"
	OIDC      = "oidc"
)

// IncomingAuth says who may come in, and what they may do.
type IncomingAuth struct {
	// Type is how clients say who they are: anonymous asks nobody, oidc wants a bearer token of an issuer.
	Type string `json:"type" enum:"anonymous,oidc" crd:"yes"`
	// OIDCConfigRef names the MCPOIDCConfig of ToolHive with the issuer, for type oidc.
	OIDCConfigRef *OIDCConfigRef `json:"oidcConfigRef,omitempty" crd:"yes"`
	// AuthzConfig has the policies about what clients may do.
	AuthzConfig *AuthzConfig `json:"authzConfig,omitempty" crd:"yes"`
	// AuthzConfigRef names an MCPAuthzConfig of ToolHive. It cannot be carried: a server with it is not served.
	AuthzConfigRef *config.NameRef `json:"authzConfigRef,omitempty" crd:"yes"`
}

// OIDCConfigRef names an issuer, and says what tokens have to be for.
type OIDCConfigRef struct {
	// Name is the name of the MCPOIDCConfig.
	Name string `json:"name" crd:"yes" max:"253"`
	// Audience is what a token has to be for.
	Audience string `json:"audience" crd:"yes" max:"2048"`
	// Scopes are named to clients that bring no token.
	Scopes []string `json:"scopes,omitempty" crd:"yes" max:"100"`
	// ResourceURL is the endpoint's URL, which tokens may name as their audience.
	ResourceURL string `json:"resourceUrl,omitempty" crd:"yes" max:"2048"`
}

// AuthzConfig has policies.
type AuthzConfig struct {
	// Type says where the policies are: inline or in a ConfigMap.
	Type string `json:"type" enum:"configMap,inline" crd:"yes"`
	// ConfigMap names the ConfigMap with the policies, as JSON.
	ConfigMap *AuthzConfigMap `json:"configMap,omitempty" crd:"yes"`
	// Inline are policies in the object.
	Inline *InlineAuthz `json:"inline,omitempty" crd:"yes"`
	// GroupClaimName is the claim with the groups.
	GroupClaimName string `json:"groupClaimName,omitempty" crd:"yes" max:"1000"`
	// RoleClaimName is a claim whose values are groups, too.
	RoleClaimName string `json:"roleClaimName,omitempty" crd:"yes" max:"1000"`
	// GroupEntityType is what policies call a group.
	GroupEntityType string `json:"groupEntityType,omitempty" crd:"yes" max:"1000"`
}

// AuthzConfigMap names policies in a ConfigMap.
type AuthzConfigMap struct {
	// Name is the name of the ConfigMap.
	Name string `json:"name" crd:"yes" max:"253"`
	// Key is the key in it. Without it: authz.json.
	Key string `json:"key,omitempty" crd:"yes" max:"253"`
}

// InlineAuthz are policies in Cedar's language.
type InlineAuthz struct {
	// Policies are the policies. What none of them permits is denied.
	Policies []string `json:"policies" crd:"yes" max:"1000"`
	// EntitiesJSON are further entities that policies speak of, as Cedar writes them in JSON.
	EntitiesJSON string `json:"entitiesJson,omitempty" crd:"yes"`
}

// EntrySpec is the spec of an MCPServerEntry.
type EntrySpec struct {
	// GroupRef names the group: the entry is a backend of every VirtualMCPServer with the same one.
	GroupRef config.NameRef `json:"groupRef" crd:"yes"`
	// RemoteURL is the URL of the MCP server, with http or https.
	RemoteURL string `json:"remoteUrl" crd:"yes" max:"2048"`
	// Transport is the way to speak to it.
	Transport string `json:"transport" enum:"streamable-http,sse" crd:"yes"`
	// HeaderForward are headers that are sent with every request.
	HeaderForward HeaderForward `json:"headerForward,omitempty" crd:"yes"`
	// CABundleRef names the certificates to trust for this server instead of those of the system.
	CABundleRef *CABundleRef `json:"caBundleRef,omitempty" crd:"yes"`
	// AllowPrivateEndpoint is accepted and means nothing: addresses of the cluster are allowed, link-local ones never.
	AllowPrivateEndpoint bool `json:"allowPrivateEndpoint,omitempty" crd:"yes"`
	// Timeout bounds one call. Without it operational.timeouts of the server says.
	Timeout config.Duration `json:"timeout,omitempty" crd:"yes"`
	// Sessions says which clients share a session with this backend, as in the file. Without it: auto.
	Sessions string `json:"sessions,omitempty" enum:"auto,shared,exclusive" crd:"yes"`
	// MaxConnections bounds the connections to this backend. Without it: 64.
	MaxConnections int `json:"maxConnections,omitempty" crd:"yes"`
}

// HeaderForward are headers that are sent with every request to a backend.
type HeaderForward struct {
	// AddPlaintextHeaders are headers by name. Everybody who reads the object sees their values.
	AddPlaintextHeaders map[string]string `json:"addPlaintextHeaders,omitempty" crd:"yes" max:"100"`
	// AddHeadersFromSecret are headers whose values are in Secrets.
	AddHeadersFromSecret []HeaderFromSecret `json:"addHeadersFromSecret,omitempty" crd:"yes" max:"100"`
}

// HeaderFromSecret is a header whose value is in a Secret.
type HeaderFromSecret struct {
	// HeaderName is the name of the header.
	HeaderName string `json:"headerName" crd:"yes" max:"255"`
	// ValueSecretRef names the Secret and the key in it. One line break at the end of the value is cut.
	ValueSecretRef config.KeyRef `json:"valueSecretRef" crd:"yes"`
}

// CABundleRef names certificates.
type CABundleRef struct {
	// ConfigMapRef names the ConfigMap.
	ConfigMapRef CABundleKey `json:"configMapRef" crd:"yes"`
}

// CABundleKey is a key of a ConfigMap.
type CABundleKey struct {
	// Name is the name of the ConfigMap.
	Name string `json:"name" crd:"yes" max:"253"`
	// Key is the key in it. Without it: ca.crt.
	Key string `json:"key,omitempty" crd:"yes" max:"253"`
}

// ScriptedSpec is the spec of a VirtualMCPScriptedToolDefinition: a scripted tool of the file, with scriptFrom in
// place of scriptFile.
type ScriptedSpec = config.ScriptedTool

// CompositeSpec is the spec of a VirtualMCPCompositeToolDefinition, a workflow in ToolHive's format, as JSON.
// What stands in it is looked at where it is compiled.
type CompositeSpec = config.CompositeTool
