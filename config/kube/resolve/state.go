// Package resolve makes configurations of objects, and reports of what became of them. It is the pure middle of
// the Kubernetes source: what is watched goes in, what is served and what is written as status comes out, and
// nothing here knows an API server.
//
//	r := resolve.New(resolve.Options{Check: check})
//	for name, s := range r.Resolve(state) { // a *Server for each VirtualMCPServer
//		err := proxies[name].Apply(s.Config) // nil Config: not served
//		if err == nil {
//			r.Applied(s)
//		} else if other := r.Refused(s, err); other != nil {
//			… other.Config is tried in its place, or nothing is served if it is nil; twice at most, then other is nil
//		}
//	}
//	reports := r.Reports(live) // live says which backends answer
//
// The unit of failure is one object. An object whose spec, references or script are wrong keeps its last good
// version, which lives in memory; one that never was good is left out. That of a server is its own spec; what it
// refers to has versions of its own.
package resolve

import (
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// State is what a namespace holds, by the names of objects. Nothing in it is changed, here or while it is used.
type State struct {
	Servers    map[string]*object.VirtualMCPServer
	Entries    map[string]*object.MCPServerEntry
	Scripted   map[string]*object.VirtualMCPScriptedToolDefinition
	Composites map[string]*object.VirtualMCPCompositeToolDefinition
	ConfigMaps map[string]*object.ConfigMap
	Secrets    map[string]*object.Secret
	// ToolHive are the servers of ToolHive that from.toolhive names, by their names. What is not in it is not there.
	ToolHive map[string]*Translation
	// OIDC are ToolHive's MCPOIDCConfigs, by their names.
	OIDC map[string]*Issuer
}

// Translation is a VirtualMCPServer of another product in the terms of ours.
type Translation struct {
	// Spec is what a VirtualMCPServer of ours would say. Its groupRef and from are ignored.
	Spec object.ServerSpec
	// Backends are what the group holds, by the names that they get. Those with a URL that is not known yet have none.
	Backends []Backend
	// Composites are the definitions that compositeToolRefs of Spec name, by name.
	Composites map[string]*object.VirtualMCPCompositeToolDefinition
	// Ignored are the fields that are not carried, such as spec.config.optimizer.
	Ignored []string
	// Problem says why the server cannot be served; the zero Problem: it can. One whose reason is AuthNotCarried
	// does not count where the object's own incomingAuth replaces theirs.
	Problem Problem
}

// Backend is a backend of a Translation.
type Backend struct {
	// Name is what the backend is called, Object the object that it comes from, such as MCPServer github.
	Name, Object string
	// Spec is what an MCPServerEntry of ours would say. An empty RemoteURL is not there yet.
	Spec object.EntrySpec
	// Problem says why the backend is left out; the zero Problem: it is not.
	Problem Problem
}

// Problem is why something cannot be used: a reason of package object, and a message for people.
type Problem struct {
	Reason  string
	Message string
}

// Issuer is an issuer of tokens that an MCPOIDCConfig describes.
type Issuer struct {
	// Config is what the file's incomingAuth.oidc would say, without audience, scopes and resource.
	Config config.OIDC
	// CABundle names the certificates to trust for it, ClientSecret its secret; nil: none.
	CABundle     *object.CABundleKey
	ClientSecret *config.KeyRef
	// Problem says why it cannot be carried; the zero Problem: it can.
	Problem Problem
}

// Check compiles the scripts and composite tools of a configuration, as serving it would, and returns what is
// wrong with them. The configuration has one tool, the libraries and limits that it runs with, and the bundle
// that it belongs to. Positions of problems are those that Config.Origin says.
type Check func(cfg *config.Config) diag.Problems

// Options are the options of a Resolver.
type Options struct {
	// Check compiles one tool.
	Check Check
	// AllowAnonymous lets servers with incomingAuth.type anonymous be served: the endpoint is on an address that
	// only this machine reaches, or it was said that everybody may.
	AllowAnonymous bool
	// Offline takes ConfigMaps, Secrets and objects of other products that are not in the state to be in the cluster.
	Offline bool
	// Only is the one server that is wanted; "" is all.
	Only string
}

// Server is what is to be served of one VirtualMCPServer.
type Server struct {
	// Name is that of the object.
	Name string
	// Config is complete and checked; nil: nothing can be served. It is one Apply's.
	Config *config.Config
	// Same reports that Config says nothing else than the one that was applied last.
	Same bool

	of    *server
	built *build
}

// Live says which backends of a server answer: by the name of the backend why it does not, "" for one that does.
// A backend that is not in it is not known yet.
type Live func(server string) map[string]string

// Report is what is to be written of one object.
type Report struct {
	Object object.Ref
	// Status has conditions without times.
	Status object.Status
	// Problems are what is wrong with the object, with the paths of its fields, and places in scripts.
	Problems diag.Problems
}

// References are the ConfigMaps and Secrets that objects name, in order.
type References struct {
	ConfigMaps []string
	Secrets    []string
}
