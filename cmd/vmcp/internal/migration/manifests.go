package migration

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

// This part of the package checks manifests of Kubernetes objects without a cluster, and reports problems with the texts
// that the status of the objects would have.

// File is a file of manifests.
type File struct {
	Name string
	Text []byte
}

// Check returns the problems of the objects in files, which may refer to each other. ConfigMaps, Secrets and
// objects of ToolHive that are in none of the files are assumed to be in the cluster, and their content is not
// checked.
func Check(files []File) diag.Problems {
	s := &set{places: map[object.Ref]func(string) diag.Pos{}, state: resolve.State{
		Servers: map[string]*object.VirtualMCPServer{}, Entries: map[string]*object.MCPServerEntry{},
		Scripted: map[string]*object.VirtualMCPScriptedToolDefinition{}, Composites: map[string]*object.VirtualMCPCompositeToolDefinition{},
		ConfigMaps: map[string]*object.ConfigMap{}, Secrets: map[string]*object.Secret{}}}
	for _, f := range files {
		all, problems := object.Read(f.Name, f.Text)
		s.problems = append(s.problems, problems...)
		for _, m := range all {
			s.add(m)
		}
	}
	s.report(&s.state)
	s.unused()
	return s.problems.Sorted()
}

// set is the objects of the files.
type set struct {
	state    resolve.State
	places   map[object.Ref]func(path string) diag.Pos
	problems diag.Problems
}

// add adds an object.
func (s *set) add(m object.Manifest) {
	twice := false
	switch o := m.Object.(type) {
	case *object.VirtualMCPServer:
		twice = put(s, s.state.Servers, o.Ref(), o, o.Place)
	case *object.MCPServerEntry:
		twice = put(s, s.state.Entries, o.Ref(), o, o.Place)
	case *object.VirtualMCPScriptedToolDefinition:
		twice = put(s, s.state.Scripted, o.Ref(), o, o.Place)
	case *object.VirtualMCPCompositeToolDefinition:
		twice = put(s, s.state.Composites, o.Ref(), o, o.Place)
	case *object.ConfigMap:
		s.state.ConfigMaps[o.Name] = o
	case *object.Secret:
		s.state.Secrets[o.Name] = o
	}
	if twice {
		s.problems = append(s.problems, diag.Problem{Pos: m.Pos, Code: "config", Path: "metadata.name", Message: fmt.Sprintf("there is another %s with this name", m.Kind)})
	}
}

func put[T any](s *set, all map[string]*T, ref object.Ref, o *T, place func(string) diag.Pos) (twice bool) {
	_, twice = all[ref.Name]
	all[ref.Name] = o
	s.places[ref] = place
	return twice
}

// report adds the problems of a resolved state.
func (s *set) report(state *resolve.State) {
	r := resolve.New(resolve.Options{Check: proxy.CheckTools, AllowAnonymous: true, Offline: true})
	for _, server := range r.Resolve(state) {
		for tried := server; tried != nil && tried.Config != nil; {
			problems, _ := policies(tried.Config).Split()
			if len(problems) == 0 {
				r.Applied(tried)
				break
			}
			tried = r.Refused(tried, problems)
		}
	}
	for _, report := range r.Reports(func(string) map[string]string { return nil }) {
		for _, p := range report.Problems {
			if p.Line == 0 {
				p.Pos = s.place(report.Object, p.Path)
			}
			s.problems = append(s.problems, p)
		}
	}
}

// policies returns the problems of the policies of a configuration.
func policies(cfg *config.Config) diag.Problems {
	_, problems := policy.Compile(cfg)
	return problems
}

func (s *set) place(of object.Ref, path string) diag.Pos {
	if place := s.places[of]; place != nil {
		return place(path)
	}
	return diag.Pos{}
}

// unused compiles the tools that no server of the files refers to, each alone. Files that they load may be libraries of
// a server that is not there.
func (s *set) unused() {
	var scripted, composites []config.NameRef
	for _, o := range s.state.Servers {
		scripted = append(scripted, o.Spec.Config.ScriptedToolRefs...)
		composites = append(composites, o.Spec.Config.CompositeToolRefs...)
	}
	for name := range s.state.Scripted {
		if ref := (config.NameRef{Name: name}); !slices.Contains(scripted, ref) {
			s.alone(config.Config{ScriptedToolRefs: []config.NameRef{ref}})
		}
	}
	for name := range s.state.Composites {
		if ref := (config.NameRef{Name: name}); !slices.Contains(composites, ref) {
			s.alone(config.Config{CompositeToolRefs: []config.NameRef{ref}})
		}
	}
}

// alone checks the one tool that a configuration has.
func (s *set) alone(c config.Config) {
	state := s.state
	server := &object.VirtualMCPServer{Meta: object.Meta{Name: "alone"}}
	server.Spec = object.ServerSpec{GroupRef: &config.NameRef{}, IncomingAuth: &object.IncomingAuth{Type: object.Anonymous}, Config: c}
	state.Servers = map[string]*object.VirtualMCPServer{server.Name: server}
	before := len(s.problems)
	s.report(&state)
	found := slices.Clone(s.problems[before:])
	s.problems = append(s.problems[:before], slices.DeleteFunc(found, func(p diag.Problem) bool {
		return strings.HasPrefix(p.Message, "load ") || p.File == ""
	})...)
}
