// Package object defines the Kubernetes objects that configure vmcp: their kinds, specs, status and conditions.
// It decodes them strictly, from the JSON of an API server or from the manifests of a file. The specs are the structs
// of package config, restricted to the fields whose tag crd is yes.
//
//	o, err := object.Decode[object.ServerSpec](data) // JSON of one VirtualMCPServer
//	o.Problems                                       // the problems of its spec
//
// Variables are never expanded: ${…} is kept literally.
package object

import (
	"github.com/vmcp-dev/vmcp/config"
)

// The group and version of the kinds.
const (
	Group      = "vmcp.dev"
	Version    = "v1alpha1"
	APIVersion = Group + "/" + Version
	// Category is the name for all kinds in kubectl get.
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
	// Status is the status of the object when it was read.
	Status Status
	// Problems are the problems of the spec by itself, with paths that begin with spec. An object with problems is
	// not used.
	Problems Problems

	text *text
}

// Spec is the spec of one of the kinds.
type Spec interface {
	ServerSpec | EntrySpec | ScriptedSpec | CompositeSpec
}

// The kinds of objects.
type (
	// VirtualMCPServer is an endpoint: its config, over the backends of its group.
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
	// GroupRef is the group of the backends: every MCPServerEntry with the same groupRef. A group is only a name; there is no object for it.
	GroupRef *config.NameRef `json:"groupRef,omitempty" crd:"yes"`
	// From is an object of another product that is used in place of groupRef and config.
	From *From `json:"from,omitempty" crd:"yes"`
	// IncomingAuth is how clients authenticate and what they may do. Required with groupRef; with from it replaces that of the other object.
	IncomingAuth *IncomingAuth `json:"incomingAuth,omitempty" crd:"yes"`
	// Config is the configuration of the server.
	Config config.Config `json:"config,omitempty" crd:"yes"`
}

// From is a reference to an object of another product.
type From struct {
	// ToolHive is the name of a VirtualMCPServer of ToolHive (toolhive.stacklok.dev/v1beta1) in the same namespace. It is only read.
	ToolHive string `json:"toolhive" crd:"yes" max:"253"`
}

// The types of IncomingAuth.
const (
	Anonymous = "anonymous"
	OIDC      = "oidc"
)

// IncomingAuth is how clients authenticate and what they may do.
type IncomingAuth struct {
	// Type is how clients authenticate. anonymous: not at all. oidc: with a bearer token of an issuer.
	Type string `json:"type" enum:"anonymous,oidc" crd:"yes"`
	// OIDCConfigRef is the MCPOIDCConfig of ToolHive with the issuer, for type oidc.
	OIDCConfigRef *OIDCConfigRef `json:"oidcConfigRef,omitempty" crd:"yes"`
	// AuthzConfig is the policies that decide what clients may do.
	AuthzConfig *AuthzConfig `json:"authzConfig,omitempty" crd:"yes"`
	// AuthzConfigRef is an MCPAuthzConfig of ToolHive. It is not supported: a server with it is not served.
	AuthzConfigRef *config.NameRef `json:"authzConfigRef,omitempty" crd:"yes"`
}

// OIDCConfigRef is an issuer and the required audience of its tokens.
type OIDCConfigRef struct {
	// Name is the name of the MCPOIDCConfig.
	Name string `json:"name" crd:"yes" max:"253"`
	// Audience is the required audience of tokens.
	Audience string `json:"audience" crd:"yes" max:"2048"`
	// Scopes are advertised to clients without a token.
	Scopes []string `json:"scopes,omitempty" crd:"yes" max:"100"`
	// ResourceURL is the endpoint's URL, which tokens may name as their audience.
	ResourceURL string `json:"resourceUrl,omitempty" crd:"yes" max:"2048"`
}

// AuthzConfig is where the policies are.
type AuthzConfig struct {
	// Type is where the policies are: inline or in a ConfigMap.
	Type string `json:"type" enum:"configMap,inline" crd:"yes"`
	// ConfigMap is the ConfigMap with the policies, as JSON.
	ConfigMap *AuthzConfigMap `json:"configMap,omitempty" crd:"yes"`
	// Inline are the policies in the object itself.
	Inline *InlineAuthz `json:"inline,omitempty" crd:"yes"`
	// GroupClaimName is the claim with the groups.
	GroupClaimName string `json:"groupClaimName,omitempty" crd:"yes" max:"1000"`
	// RoleClaimName is a claim whose values are added to the groups.
	RoleClaimName string `json:"roleClaimName,omitempty" crd:"yes" max:"1000"`
	// GroupEntityType is the entity type of groups in policies.
	GroupEntityType string `json:"groupEntityType,omitempty" crd:"yes" max:"1000"`
}

// AuthzConfigMap is a key of a ConfigMap with policies.
type AuthzConfigMap struct {
	// Name is the name of the ConfigMap.
	Name string `json:"name" crd:"yes" max:"253"`
	// Key is the key in it. Default: authz.json.
	Key string `json:"key,omitempty" crd:"yes" max:"253"`
}

// InlineAuthz are Cedar policies.
type InlineAuthz struct {
	// Policies are the policies. What none of them permits is denied.
	Policies []string `json:"policies" crd:"yes" max:"1000"`
	// EntitiesJSON are further entities that policies refer to, in Cedar's JSON format.
	EntitiesJSON string `json:"entitiesJson,omitempty" crd:"yes"`
}

// EntrySpec is the spec of an MCPServerEntry.
type EntrySpec struct {
	// GroupRef is the group: the entry is a backend of every VirtualMCPServer with the same groupRef.
	GroupRef config.NameRef `json:"groupRef" crd:"yes"`
	// RemoteURL is the URL of the MCP server, with http or https.
	RemoteURL string `json:"remoteUrl" crd:"yes" max:"2048"`
	// Transport is the MCP transport.
	Transport string `json:"transport" enum:"streamable-http,sse" crd:"yes"`
	// HeaderForward are headers that are sent with every request.
	HeaderForward HeaderForward `json:"headerForward,omitempty" crd:"yes"`
	// CABundleRef is the CA certificates to trust for this server instead of those of the system.
	CABundleRef *CABundleRef `json:"caBundleRef,omitempty" crd:"yes"`
	// AllowPrivateEndpoint is accepted and ignored: addresses of the cluster are always allowed, link-local ones never.
	AllowPrivateEndpoint bool `json:"allowPrivateEndpoint,omitempty" crd:"yes"`
	// Timeout bounds one call. Default: operational.timeouts of the server.
	Timeout config.Duration `json:"timeout,omitempty" crd:"yes"`
	// Sessions is which clients share a session with this backend, as in the file. Default: auto.
	Sessions string `json:"sessions,omitempty" enum:"auto,shared,exclusive" crd:"yes"`
	// MaxConnections bounds the connections to this backend. Default: 64.
	MaxConnections int `json:"maxConnections,omitempty" crd:"yes"`
}

// HeaderForward are headers that are sent with every request to a backend.
type HeaderForward struct {
	// AddPlaintextHeaders are headers by name. Their values are visible to everybody who can read the object.
	AddPlaintextHeaders map[string]string `json:"addPlaintextHeaders,omitempty" crd:"yes" max:"100"`
	// AddHeadersFromSecret are headers whose values are in Secrets.
	AddHeadersFromSecret []HeaderFromSecret `json:"addHeadersFromSecret,omitempty" crd:"yes" max:"100"`
}

// HeaderFromSecret is a header whose value is in a Secret.
type HeaderFromSecret struct {
	// HeaderName is the name of the header.
	HeaderName string `json:"headerName" crd:"yes" max:"255"`
	// ValueSecretRef is the Secret and the key in it. One line break at the end of the value is removed.
	ValueSecretRef config.KeyRef `json:"valueSecretRef" crd:"yes"`
}

// CABundleRef is a reference to CA certificates.
type CABundleRef struct {
	// ConfigMapRef names the ConfigMap.
	ConfigMapRef CABundleKey `json:"configMapRef" crd:"yes"`
}

// CABundleKey is a key of a ConfigMap.
type CABundleKey struct {
	// Name is the name of the ConfigMap.
	Name string `json:"name" crd:"yes" max:"253"`
	// Key is the key in it. Default: ca.crt.
	Key string `json:"key,omitempty" crd:"yes" max:"253"`
}

// ScriptedSpec is the spec of a VirtualMCPScriptedToolDefinition: a scripted tool of the file, with scriptFrom in
// place of scriptFile.
type ScriptedSpec = config.ScriptedTool

// CompositeSpec is the spec of a VirtualMCPCompositeToolDefinition, a workflow in ToolHive's format, as JSON.
// Its content is checked when it is compiled.
type CompositeSpec = config.CompositeTool
