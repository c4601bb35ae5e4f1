package proxy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/yosida95/uritemplate/v3"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// A catalog is everything a client can name at one moment. It is immutable: a change of
// a backend, a script or the configuration builds a new one, and a call ends on the
// catalog it began with.
type catalog struct {
	tools, prompts, resources, templates *list

	toolByName     map[string]*entry
	toolByOrigin   map[string]*entry // "backend.tool", hidden ones too
	promptByName   map[string]*entry
	resourceByURI  map[string]*entry
	templateByText map[string]*entry

	serverInfo   json.RawMessage // how the proxy introduces itself
	instructions string
	extensions   json.RawMessage // that a backend speaks, from its capabilities; nil for none
	problems     []Problem
	said         [3]uint64 // how often backends announced changed tools, prompts, resources
	scripts      string    // identifies the programs of all scripts
	ready        map[*backends.Backend]bool
}

// An entry is one thing that clients or scripts can name.
type entry struct {
	name    string            // as clients see it; a URI for resources
	own     string            // as its backend sees it
	backend *backends.Backend // nil for a scripted tool
	script  *scriptedTool     // nil for a backend's entry
	def     json.RawMessage   // the definition that is listed
	hidden  bool              // callable from scripts only
	headers []headerParam     // x-mcp-header declarations of a tool
	match   *uritemplate.Template

	contractOnce sync.Once
	schemas      contract
}

// origin names where e comes from.
func (e *entry) origin() string {
	if e.backend == nil {
		return "script " + e.name
	}
	return e.backend.Name() + "." + e.own
}

// Problem is an entry that clients do not get as its backend offers it, and why.
type Problem struct {
	Backend string `json:"backend,omitempty"`
	Entry   string `json:"entry"`
	Reason  string `json:"reason"`
}

// builder collects one catalog.
type builder struct {
	cfg   *config.Config
	c     *catalog
	tools []*entry
	// complete says that every backend has said what it offers.
	complete bool

	rules         map[string]*config.WorkloadTools
	promptRules   map[string]config.WorkloadPrompts
	resourceRules map[string]config.WorkloadResources
}

func buildCatalog(cfg *config.Config, all []*backends.Backend, scripts []*scriptedTool, page pageStyle) *catalog {
	b := &builder{cfg: cfg, rules: map[string]*config.WorkloadTools{}, c: &catalog{
		toolByName:     map[string]*entry{},
		toolByOrigin:   map[string]*entry{},
		promptByName:   map[string]*entry{},
		resourceByURI:  map[string]*entry{},
		templateByText: map[string]*entry{},
		ready:          map[*backends.Backend]bool{},
		serverInfo:     page.serverInfo,
	}}
	b.readRules()
	for _, s := range scripts {
		b.addScript(s)
	}
	offers := map[string]*backends.Offer{}
	for _, be := range b.byPriority(all) {
		b.c.ready[be] = be.State().Status == backends.Ready // before its offer is read
		offer := be.Offer()
		offers[be.Name()] = offer
		b.addExtensions(offer)
		b.c.said[0] += offer.ToolsSaid
		b.c.said[1] += offer.PromptsSaid
		b.c.said[2] += offer.ResourcesSaid
		b.addTools(be, offer)
		b.addPrompts(be, offer)
		b.addResources(be, offer)
	}
	b.complete = complete(all)
	b.finish(page, offers)
	if b.complete {
		b.lint(scripts)
	}
	return b.c
}

// complete reports whether every backend has said what it offers.
func complete(all []*backends.Backend) bool {
	return !slices.ContainsFunc(all, func(be *backends.Backend) bool { return be.State().Status != backends.Ready })
}

func (b *builder) readRules() {
	a := b.cfg.Aggregation
	for i := range a.Tools {
		b.rules[a.Tools[i].Workload] = &a.Tools[i]
	}
	b.promptRules = map[string]config.WorkloadPrompts{}
	for _, w := range a.Prompts {
		b.promptRules[w.Workload] = w
	}
	b.resourceRules = map[string]config.WorkloadResources{}
	for _, w := range a.Resources {
		b.resourceRules[w.Workload] = w
	}
}

// addExtensions collects the protocol extensions of the backends: their messages pass
// through. Of several settings of one extension the first holds.
func (b *builder) addExtensions(offer *backends.Offer) {
	wire.Each(wire.Get(offer.Capabilities, "extensions"), func(name, settings []byte) bool {
		if wire.Get(b.c.extensions, string(name)) == nil {
			b.c.extensions = wire.Set(b.c.extensions, string(name), settings)
		}
		return true
	})
}

// byPriority is the order in which backends claim names: the configuration's, unless
// the priority strategy says otherwise.
func (b *builder) byPriority(all []*backends.Backend) []*backends.Backend {
	order := b.cfg.Aggregation.ConflictResolutionConfig.PriorityOrder
	if b.cfg.Aggregation.ConflictResolution != "priority" || len(order) == 0 {
		return all
	}
	rank := func(be *backends.Backend) int {
		if i := slices.Index(order, be.Name()); i >= 0 {
			return i
		}
		return len(order)
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(x, y *backends.Backend) int { return cmp.Compare(rank(x), rank(y)) })
	return sorted
}

func (b *builder) problem(backend, entry, format string, args ...any) {
	b.c.problems = append(b.c.problems, Problem{Backend: backend, Entry: entry, Reason: fmt.Sprintf(format, args...)})
}

// prefix is what the strategy puts before the names of a backend.
func (b *builder) prefix(backend string) string {
	a := b.cfg.Aggregation
	if a.ConflictResolution != "" && a.ConflictResolution != "prefix" {
		return ""
	}
	format := a.ConflictResolutionConfig.PrefixFormat
	if format == "" {
		if len(b.cfg.Backends) == 1 {
			return ""
		}
		format = "{workload}_"
	}
	return strings.ReplaceAll(format, "{workload}", backend)
}

func (b *builder) addScript(s *scriptedTool) {
	b.c.scripts += s.name + " " + s.program.Hash() + "\n"
	e := &entry{name: s.name, own: s.name, script: s, def: s.definition}
	if owner := b.c.toolByName[e.name]; owner != nil {
		b.problem("", e.name, "name refused: there is another scripted tool of that name")
		return
	}
	b.c.toolByName[e.name] = e
	b.tools = append(b.tools, e)
}

func (b *builder) addTools(be *backends.Backend, offer *backends.Offer) {
	rule := b.rules[be.Name()]
	exact := map[string]bool{} // names that need no change
	for _, item := range offer.Tools {
		if text := b.toolText(be.Name(), rule, item.Name); exposedName(text) == text {
			exact[text] = true
		}
	}
	for _, item := range offer.Tools {
		if err := usableTool(item); err != nil {
			b.problem(be.Name(), item.Name, "definition dropped: %v", err)
			continue
		}
		headers, err := headerParams(item.Raw)
		if err != nil {
			b.problem(be.Name(), item.Name, "definition dropped: %v", err)
			continue
		}
		e := &entry{own: item.Name, backend: be, headers: headers, hidden: b.isHidden(rule, item.Name)}
		text := b.toolText(be.Name(), rule, item.Name)
		e.name = exposedName(text)
		if e.name != text && exact[e.name] {
			e.name = hashedName(text)
		}
		b.claimTool(e, rule, item)
	}
}

// toolText is what the override and the strategy make of a tool's name, before it is
// made to fit.
func (b *builder) toolText(backend string, rule *config.WorkloadTools, own string) string {
	if rule != nil && rule.Overrides[own].Name != "" {
		return b.prefix(backend) + rule.Overrides[own].Name
	}
	return b.prefix(backend) + own
}

// usableTool says why no client could use a definition.
func usableTool(item backends.Item) error {
	if item.Name == "" {
		return fmt.Errorf("it has no name")
	}
	schema := wire.Get(item.Raw, "inputSchema")
	if len(schema) == 0 || schema[0] != '{' {
		return fmt.Errorf("inputSchema: want an object")
	}
	return nil
}

func (b *builder) isHidden(rule *config.WorkloadTools, own string) bool {
	if b.cfg.Aggregation.ExcludeAllTools {
		return true
	}
	if rule == nil {
		return b.cfg.Aggregation.DefaultToolVisibility == "hidden"
	}
	if rule.ExcludeAll {
		return true
	}
	return len(rule.Filter) > 0 && !matchesAny(rule.Filter, own, rule.Overrides[own].Name)
}

// matchesAny reports whether a glob matches one of the names.
func matchesAny(globs []string, names ...string) bool {
	for _, g := range globs {
		for _, n := range names {
			if ok, _ := path.Match(g, n); ok && n != "" {
				return true
			}
		}
	}
	return false
}

// claimTool gives e its name, unless somebody has it.
func (b *builder) claimTool(e *entry, rule *config.WorkloadTools, item backends.Item) {
	backend := e.backend.Name()
	var over config.ToolOverride
	if rule != nil {
		over = rule.Overrides[e.own]
	}
	e.def = overrideTool(item.Raw, e.name, over)
	origin := backend + "." + e.own
	if b.c.toolByOrigin[origin] == nil {
		b.c.toolByOrigin[origin] = e
	}
	if owner := b.c.toolByName[e.name]; owner != nil {
		b.problem(backend, e.own, "name %q refused: it belongs to %s; scripts reach this tool as %q", e.name, owner.origin(), origin)
		return
	}
	b.c.toolByName[e.name] = e
	b.tools = append(b.tools, e)
}

// overrideTool changes what the configuration and the strategy change, and no other byte.
func overrideTool(def json.RawMessage, name string, over config.ToolOverride) json.RawMessage {
	def = overrideText(def, name, over.Description)
	if over.Annotations != nil {
		annotations := wire.Get(def, "annotations")
		changed, _ := json.Marshal(over.Annotations)
		wire.Each(changed, func(k, v []byte) bool {
			annotations = wire.Set(annotations, string(k), v)
			return true
		})
		def = wire.Set(def, "annotations", annotations)
	}
	return def
}

// overrideText sets the name and, if there is a new one, the description.
func overrideText(def json.RawMessage, name, description string) json.RawMessage {
	if name != "" && wire.GetString(def, "name") != name {
		def = wire.Set(def, "name", wire.Quote(name))
	}
	if description != "" {
		def = wire.Set(def, "description", wire.Quote(description))
	}
	return def
}

func (b *builder) addPrompts(be *backends.Backend, offer *backends.Offer) {
	rule := b.promptRules[be.Name()]
	for _, item := range offer.Prompts {
		over := rule.Overrides[item.Name]
		if rule.ExcludeAll || len(rule.Filter) > 0 && !matchesAny(rule.Filter, item.Name, over.Name) {
			continue
		}
		e := &entry{own: item.Name, backend: be, name: exposedName(b.prefix(be.Name()) + cmp.Or(over.Name, item.Name))}
		if owner := b.c.promptByName[e.name]; owner != nil {
			b.problem(be.Name(), item.Name, "prompt name %q refused: it belongs to %s", e.name, owner.origin())
			continue
		}
		e.def = overrideText(item.Raw, e.name, over.Description)
		b.c.promptByName[e.name] = e
	}
}

func (b *builder) addResources(be *backends.Backend, offer *backends.Offer) {
	rule := b.resourceRules[be.Name()]
	kept := func(item backends.Item) bool {
		return !rule.ExcludeAll && (len(rule.Filter) == 0 || matchesAny(rule.Filter, item.Name))
	}
	entryOf := func(item backends.Item) *entry {
		over := rule.Overrides[item.Name]
		return &entry{name: item.Name, own: item.Name, backend: be, def: overrideText(item.Raw, over.Name, over.Description)}
	}
	for _, item := range offer.Resources {
		if kept(item) {
			b.addResource(b.c.resourceByURI, entryOf(item))
		}
	}
	for _, item := range offer.Templates {
		if !kept(item) {
			continue
		}
		t, err := uritemplate.New(item.Name)
		if err != nil {
			b.problem(be.Name(), item.Name, "template dropped: %v", err)
			continue
		}
		e := entryOf(item)
		e.match = t
		b.addResource(b.c.templateByText, e)
	}
}

// addResource gives a URI to the first backend that offers it: URIs are never rewritten.
func (b *builder) addResource(owners map[string]*entry, e *entry) {
	if owner := owners[e.name]; owner != nil {
		b.problem(e.backend.Name(), e.name, "this URI is served by %s", owner.backend.Name())
		return
	}
	owners[e.name] = e
}

// finish orders the lists: scripted tools first, then backends in the configuration's
// order, each in its own order.
func (b *builder) finish(page pageStyle, offers map[string]*backends.Offer) {
	c := b.c
	for _, e := range b.tools {
		if e.script != nil {
			b.annotate(e)
		}
	}
	visible := slices.DeleteFunc(slices.Clone(b.tools), func(e *entry) bool { return e.hidden })
	rank := map[string]int{}
	for i, be := range b.cfg.Backends {
		rank[be.Name] = i + 1
	}
	slices.SortStableFunc(visible, func(x, y *entry) int { return cmp.Compare(x.rank(rank), y.rank(rank)) })
	tools, prompts, resources, templates := page, page, page, page
	for _, o := range offers {
		tools, prompts = tools.with(o.ToolsMeta), prompts.with(o.PromptsMeta)
		resources, templates = resources.with(o.ResourcesMeta), templates.with(o.TemplatesMeta)
	}
	c.tools = newList("tools", visible, tools)
	c.prompts = newList("prompts", sortedEntries(c.promptByName, rank), prompts)
	c.resources = newList("resources", sortedEntries(c.resourceByURI, rank), resources)
	c.templates = newList("resourceTemplates", sortedEntries(c.templateByText, rank), templates)
	c.instructions = composeInstructions(b.cfg, offers)
}

func (e *entry) rank(ranks map[string]int) int {
	if e.backend == nil {
		return 0
	}
	return ranks[e.backend.Name()]
}

func sortedEntries(m map[string]*entry, ranks map[string]int) []*entry {
	out := make([]*entry, 0, len(m))
	for _, e := range m {
		out = append(out, e)
	}
	slices.SortFunc(out, func(x, y *entry) int {
		return cmp.Or(cmp.Compare(x.rank(ranks), y.rank(ranks)), cmp.Compare(x.name, y.name))
	})
	return out
}

// composeInstructions joins the instructions of the backends under their names.
func composeInstructions(cfg *config.Config, offers map[string]*backends.Offer) string {
	var parts []string
	for _, be := range cfg.Backends {
		o := offers[be.Name]
		if o == nil || strings.TrimSpace(o.Instructions) == "" {
			continue
		}
		text := strings.TrimSpace(o.Instructions)
		if len(cfg.Backends) > 1 {
			text = "# " + be.Name + "\n" + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n\n")
}

// tool finds a tool for a client: hidden ones do not exist for it.
func (c *catalog) tool(name string) *entry {
	if e := c.toolByName[name]; e != nil && !e.hidden {
		return e
	}
	return nil
}

// anyTool finds a tool for a script: by exposed name or as backend.tool.
func (c *catalog) anyTool(name string) *entry {
	if e := c.toolByName[name]; e != nil {
		return e
	}
	return c.toolByOrigin[name]
}

// resource finds who serves a URI: its lister, else the first template that matches.
func (c *catalog) resource(uri string) *entry {
	if e := c.resourceByURI[uri]; e != nil {
		return e
	}
	for _, t := range c.templates.entries {
		if t.match.Match(uri) != nil {
			return t
		}
	}
	return nil
}
