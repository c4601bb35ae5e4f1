package catalog

import (
	"slices"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// Tool returns a scripted tool and the file that it is written in; nil when there is none of
// that name. A composite tool has no file.
func (s *Scripts) Tool(name string) (*ScriptedTool, script.File) {
	i := slices.IndexFunc(s.tools, func(t *ScriptedTool) bool { return t.Name == name })
	if i < 0 {
		return nil, script.File{}
	}
	for _, t := range s.texts {
		if t.source.Kind == check.ToolFile && slices.ContainsFunc(t.source.Tools, func(e check.Entry) bool { return e.Tool == name }) {
			return s.tools[i], t.source.File
		}
	}
	return s.tools[i], script.File{}
}

// Names are the scripted tools, in the order of the configuration.
func (s *Scripts) Names() (names []string) {
	for _, t := range s.tools {
		names = append(names, t.Name)
	}
	return names
}

// Load finds the files that scripts load.
func (s *Scripts) Load(from, name string) (script.File, error) { return s.load(from, name) }
