// Package resolve makes configurations of Kubernetes objects, and reports for their status. It does no I/O: its input
// is a State, its output a Server for each VirtualMCPServer and a Report for each object.
//
//	r := resolve.New(resolve.Options{Check: check})
//	for name, s := range r.Resolve(state) { // a *Server for each VirtualMCPServer
//		err := proxies[name].Apply(s.Config) // nil Config: not served
//		if err == nil {
//			r.Applied(s)
//		} else if other := r.Refused(s, err); other != nil {
//			… apply other.Config in its place; nil Config: not served. At most two replacements have a Config
//		}
//	}
//	reports := r.Reports(live) // live says which backends answer
//
// Each object fails by itself. If its spec, references or script have a problem, its last good version, which is kept in
// memory only, stays in force; without one it is left out. The version of a server is that of its own spec; entries and
// tools have versions of their own.
package resolve

import (
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// State is the objects of a namespace, by name. It is read-only: neither the Resolver nor its caller changes an object.
type State struct {
	Servers    map[string]*object.VirtualMCPServer
	Entries    map[string]*object.MCPServerEntry
	Scripted   map[string]*object.VirtualMCPScriptedToolDefinition
	Composites map[string]*object.VirtualMCPCompositeToolDefinition
	ConfigMaps map[string]*object.ConfigMap
	Secrets    map[string]*object.Secret
	// ToolHive are the translated VirtualMCPServers of ToolHive that from.toolhive names, by name. One that is missing here does
	// not exist.
	ToolHive map[string]*Translation
	// OIDC are ToolHive's MCPOIDCConfigs, by their names.
	OIDC map[string]*Issuer
}

// Translation is a VirtualMCPServer of ToolHive, translated into our spec.
type Translation struct {
	// Spec is the equivalent spec of our VirtualMCPServer. Its groupRef and from are ignored.
	Spec object.ServerSpec
	// Backends are the members of the group. The URL of one that is not known yet is empty.
	Backends []Backend
	// Composites are the definitions that compositeToolRefs of Spec name, by name.
	Composites map[string]*object.VirtualMCPCompositeToolDefinition
	// Ignored are the paths of fields that are not supported, such as spec.config.optimizer.
	Ignored []string
	// Problem is why the server cannot be served; the zero Problem: it can. One with the reason AuthNotCarried is ignored
	// if the referring object has its own incomingAuth.
	Problem Problem
}

// Backend is a backend of a Translation.
type Backend struct {
	// Name is the name of the backend, Object the object that it is made of, such as MCPServer github.
	Name, Object string
	// Spec is the equivalent spec of an MCPServerEntry. RemoteURL is empty while it is not known.
	Spec object.EntrySpec
	// Problem is why the backend is left out; the zero Problem: it is not.
	Problem Problem
}

// Problem is why something cannot be used: a reason of package object, and a message for people.
type Problem struct {
	Reason  string
	Message string
}

// Issuer is an issuer of tokens that an MCPOIDCConfig describes.
type Issuer struct {
	// Config is the equivalent of incomingAuth.oidc in a file, without audience, scopes and resource.
	Config config.OIDC
	// CABundle names the CA certificates to trust for the issuer, ClientSecret the client secret; nil: none.
	CABundle     *object.CABundleKey
	ClientSecret *config.KeyRef
	// Problem is why the issuer cannot be used; the zero Problem: it can.
	Problem Problem
}

// Check compiles the scripts and composite tools of a configuration in the same way as serving it, and returns their
// problems. The configuration has one tool, the libraries and limits that it runs with, and its bundle. Positions of
// problems are those of Config.Origin.
type Check func(cfg *config.Config) diag.Problems

// Options are the options of a Resolver.
type Options struct {
	// Check compiles one tool.
	Check Check
	// AllowAnonymous allows servers with incomingAuth.type anonymous: the endpoint listens on loopback only, or
	// --insecure-listen is given.
	AllowAnonymous bool
	// Offline assumes that ConfigMaps, Secrets and objects of ToolHive that are not in the state are in the cluster.
	Offline bool
	// Only is the name of the one server to resolve; "" for all. Other processes serve and report the others.
	Only string
}

// Server is the configuration to serve for one VirtualMCPServer.
type Server struct {
	// Name is the name of the object.
	Name string
	// Config is complete and checked; nil: nothing can be served. It is for one call of Apply, which may change it.
	Config *config.Config
	// Same reports that Config equals the one that was applied last and is served.
	Same bool

	of    *server
	built *build
}

// Live returns the state of a server's backends by name: "" for one that answers, else why it does not. A backend that is
// missing is connecting.
type Live func(server string) map[string]string

// Report is the status to be written for one object.
type Report struct {
	Object object.Ref
	// Status has no lastTransitionTime in its conditions. That of a tool or an entry is as of the servers that were resolved,
	// see Merge.
	Status object.Status
	// Problems are those of the object, with paths of fields or positions in scripts.
	Problems diag.Problems
	// Elsewhere: servers that were not resolved refer to the tool or entry.
	Elsewhere bool

	unused []object.Condition // of a tool or an entry without a server
}

// References are the sorted names of the ConfigMaps and Secrets that objects refer to.
type References struct {
	ConfigMaps []string
	Secrets    []string
}
