package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

// crowded is a catalog of n tools with definitions of size bytes, and a policy that shows tool i to the group i%16.
func crowded(tb testing.TB, n, size int) (*Catalog, *policy.Set) {
	tb.Helper()
	var policies []string
	for g := range 16 {
		policies = append(policies, fmt.Sprintf(`permit(principal in THVGroup::"g%d", action, resource) when { resource.original like "*.%d" };`, g, g))
	}
	set, problems := policy.Compile(&config.Config{IncomingAuth: config.IncomingAuth{Authz: config.Authz{Policies: policies}}})
	if set == nil {
		tb.Fatal(problems)
	}
	b := &builder{cfg: &config.Config{}, c: &Catalog{toolByName: map[string]*Entry{}}}
	for i := range n {
		name := fmt.Sprintf("tool%d.%d", i, i%16)
		e := &Entry{Name: name, Original: name, Script: &ScriptedTool{Name: name},
			Definition: []byte(`{"name":"` + name + `","description":"` + strings.Repeat("d", size) + `","inputSchema":{"type":"object"}}`)}
		e.legacy, e.modern = e.Definition, e.Definition
		b.c.toolByName[name] = e
		e.index = i
		b.c.entries = append(b.c.entries, e)
	}
	b.c.tools = newList("tools", b.c.entries, pageStyle{private: true})
	b.c.prompts, b.c.resources, b.c.templates = newList("prompts", nil, pageStyle{}), newList("resources", nil, pageStyle{}), newList("resourceTemplates", nil, pageStyle{})
	b.c.everything = &View{c: b.c}
	return b.c, set
}

// groupsOf are the groups of the i-th principal, which differ.
func groupsOf(i int) (groups []string) {
	for g := range 16 {
		if i>>g&1 == 1 {
			groups = append(groups, fmt.Sprintf("g%d", g))
		}
	}
	return groups
}

// The caches of views and pages are bounded, and what was dropped is built again with the same content.
func TestViewsAreBounded(t *testing.T) {
	c, set := crowded(t, 64, 8<<10)
	page := func(i int) string {
		v := c.View(set, set.Principal(policy.Identity{Subject: "x", Groups: groupsOf(i)}), "")
		p, ok := v.Page(wire.ToolsList, "", i%2 == 1)
		if !ok {
			t.Fatal("there is no first page")
		}
		return string(p)
	}
	first := page(1)
	if n := strings.Count(first, "inputSchema"); n != 4 {
		t.Errorf("a page has %d tools, want those of one group", n)
	}
	for i := range maxViews + 200 {
		page(i)
	}
	kept := &c.views.pages
	held := 0
	for _, p := range kept.pages {
		held += len(p)
	}
	if len(c.views.all) != maxViews || held > maxKept || held != kept.size || held < maxKept/2 {
		t.Errorf("%d views, %d bytes of pages, counted as %d", len(c.views.all), held, kept.size)
	}
	if got := page(1); got != first {
		t.Error("a page that was made anew reads differently")
	}
}

// A cursor is valid for the view that returned it only.
func TestCursorsBelongToViews(t *testing.T) {
	c, set := crowded(t, 3*pageSize, 1)
	view := func(groups ...string) *View {
		return c.View(set, set.Principal(policy.Identity{Subject: "x", Groups: groups}), "")
	}
	all := groupsOf(1<<16 - 1)
	views := []*View{view(all...), view(all[1:]...), view(all[:15]...)}
	for i, v := range views {
		l, whole := v.list(listTools)
		if whole != (i == 0) {
			t.Errorf("view %d shows everything: %v", i, whole)
		}
		seen, cursor := 0, ""
		for {
			p, ok := v.Page(wire.ToolsList, cursor, false)
			if !ok {
				t.Fatalf("view %d: its own cursor %q", i, cursor)
			}
			seen += strings.Count(string(p), "inputSchema")
			_, next, more := strings.Cut(string(p), `"nextCursor":"`)
			if !more {
				break
			}
			cursor, _, _ = strings.Cut(next, `"`)
			for k, other := range views {
				if _, ok := other.Page(wire.ToolsList, cursor, false); ok != (k == i) {
					t.Errorf("a cursor of view %d is good for view %d: %v", i, k, ok)
				}
			}
		}
		if seen != len(l.entries) {
			t.Errorf("view %d: %d of %d tools", i, seen, len(l.entries))
		}
	}
}
