// Package catalog is what clients can name: the tools, prompts, resources and templates of all backends, and the
// scripted tools, under exposed names.
//
// Compile makes scripted tools of the scripts of a configuration; Build makes a Catalog of them and of what the backends
// offer at one moment. A Catalog is immutable; its owner replaces it as a whole.
//
//	scripts, problems := catalog.Compile(cfg, catalog.Known{})
//	c := catalog.Build(cfg, set.All(), nil, scripts, introduction)
//	e := c.Find(catalog.Tool("github_search"))
package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/yosida95/uritemplate/v3"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

// A Catalog is everything that clients can name at one moment. It is immutable: a change of a backend, a script or the
// configuration builds a new one, and a call ends on the catalog with which it began.
type Catalog struct {
	tools, prompts, resources, templates *list

	toolByName     map[string]*Entry
	toolByOrigin   map[string]*Entry // by "backend.tool", including hidden ones
	promptByName   map[string]*Entry
	resourceByURI  map[string]*Entry
	templateByText map[string]*Entry
	routes         []*Entry            // templates, the most specific first
	apps           map[string][]*Entry // tools with a user interface, by backend and the backend's name for them
	shadowed       map[string]*Entry   // tools of backends that cannot be called by name, since a scripted tool has the name
	several        bool                // more than one backend is configured

	ServerInfo   json.RawMessage // serverInfo of the proxy
	instructions string
	extensions   json.RawMessage // protocol extensions of the backends; nil for none
	tasks        json.RawMessage // the tasks capability of 2025-11-25, merged from all backends; nil for none
	Problems     diag.Problems   // entries that are dropped or changed, and mistakes in scripts
	Violations   []Violation     // differences from vmcp.lock; each is a problem, too
	withheld     map[Ref]bool    // entries that are blocked since they differ from vmcp.lock
	private      bool            // built for one session
	changeCounts [3]uint64       // list_changed notifications of backends for tools, prompts, resources
	scripts      string          // hashes of the programs of all scripts
	ready        map[*backends.Backend]bool
	absent       []*absent     // backends that are not available, in order of priority
	newer        chan struct{} // closed when a newer catalog replaces this one
	parts        []instructionsOf

	entries    []*Entry // of all lists, by their index
	everything *View
	profiles   map[string]*View // by name
	configured []config.Profile
	views      views
}

// Replaced is closed when a newer catalog replaces c.
func (c *Catalog) Replaced() <-chan struct{} { return c.newer }

// Replace closes the channel of Replaced.
func (c *Catalog) Replace() { close(c.newer) }

// VisibleTools lists the tools that clients see.
func (c *Catalog) VisibleTools() []*Entry { return c.tools.entries }

// HiddenTools lists the tools that only scripts can call, sorted by name.
func (c *Catalog) HiddenTools() (tools []*Entry) {
	for _, e := range c.toolByOrigin {
		if e.Hidden {
			tools = append(tools, e)
		}
	}
	slices.SortFunc(tools, func(x, y *Entry) int { return cmp.Compare(x.Name, y.Name) })
	return tools
}

// Private reports whether c was built for one session, from what backends offer to that session.
func (c *Catalog) Private() bool { return c.private }

// Shows reports whether the backend was ready when c was built, so that c has its entries.
func (c *Catalog) Shows(be *backends.Backend) bool { return c.ready[be] }

// An Entry is one tool, prompt, resource or template.
type Entry struct {
	Name       string             // as exposed to clients; the URI of a resource
	Original   string             // the backend's own name
	Backend    *backends.Backend  // nil for a scripted tool and for the proxy's own resources
	Script     *ScriptedTool      // nil for a backend's entry
	Definition json.RawMessage    // with the changes of the configuration
	legacy     json.RawMessage    // Definition in the form for clients before 2026-07-28
	modern     json.RawMessage    // Definition in the form for clients of 2026-07-28
	Hidden     bool               // callable from scripts only
	Kind       policy.Kind        // its kind for policies
	contested  bool               // another backend wants the name, too
	index      int                // index in Catalog.entries, if it is in a list
	headers    []wire.HeaderParam // x-mcp-header declarations of a tool
	repeatable *bool              // whether the configuration allows repeating a call; nil: not configured
	distrusted bool               // the backend's own annotations about that are ignored
	match      *uritemplate.Template
	literal    string // the text of a template before its first variable
	of         *Entry // the scripted tool whose source a resource shows

	// Own is the kind of one of the proxy's own resources.
	Own Own

	// IdempotencyHeader is the HTTP header in which a call's idempotency key is also sent; "" for none.
	IdempotencyHeader string

	contractOnce sync.Once
	schemas      contract
	inPolicies   atomic.Pointer[inPolicies]
	digest       atomic.Pointer[Print] // of the definition; computed on first use
}

// Origin names the source of e for messages.
func (e *Entry) Origin() string {
	switch {
	case e.Own != NotOwn:
		return "this endpoint"
	case e.Backend == nil:
		return "script " + e.Name
	}
	return e.Backend.Name() + "." + e.Original
}

// builder builds one catalog.
type builder struct {
	cfg   *config.Config
	c     *Catalog
	tools []*Entry
	// complete says that every backend was ready, so that a tool that is not found does not exist.
	complete bool

	derived map[*Entry]hints // of scripted tools

	reserved map[Ref]string // names of blocked entries, which no other backend may take, with the owner

	prefixes      map[string]string // prefixes of exposed names, by backend
	rules         map[string]*config.WorkloadTools
	promptRules   map[string]config.WorkloadPrompts
	resourceRules map[string]config.WorkloadResources
}

// Build makes a catalog of what all backends offer. private has what some backends offer to one session instead; nil
// for the common catalog.
func Build(cfg *config.Config, all []*backends.Backend, private map[*backends.Backend]*backends.Offer, scripts *Set, introduction json.RawMessage) *Catalog {
	b := &builder{cfg: cfg, rules: map[string]*config.WorkloadTools{}, reserved: map[Ref]string{}, c: &Catalog{
		toolByName:     map[string]*Entry{},
		toolByOrigin:   map[string]*Entry{},
		promptByName:   map[string]*Entry{},
		resourceByURI:  map[string]*Entry{},
		templateByText: map[string]*Entry{},
		apps:           map[string][]*Entry{},
		shadowed:       map[string]*Entry{},
		several:        len(cfg.Backends) > 1,
		withheld:       map[Ref]bool{},
		private:        private != nil,
		ready:          map[*backends.Backend]bool{},
		newer:          make(chan struct{}),
		ServerInfo:     introduction,
	}}
	b.readRules()
	for _, s := range scripts.Tools() {
		b.addScript(s)
	}
	b.addOwn()
	offers := map[string]*backends.Offer{}
	b.complete = true
	for _, be := range b.byPriority(all) {
		state, offer := be.Snapshot()
		if own := private[be]; own != nil {
			offer = own
		}
		offer = b.applyPins(scripts.Pins(), be.Name(), offer)
		b.c.ready[be] = state.Status == backends.Ready
		b.complete = b.complete && b.c.ready[be]
		b.noteAbsent(be, state)
		offers[be.Name()] = offer
		b.addExtensions(be.Name(), offer)
		b.addTasks(offer)
		b.c.changeCounts[0] += offer.ToolsChanges
		b.c.changeCounts[1] += offer.PromptsChanges
		b.c.changeCounts[2] += offer.ResourcesChanges
		b.addTools(be, offer)
		b.addPrompts(be, offer)
		b.addResources(be, offer)
	}
	b.finish(pageStyle{serverInfo: introduction, private: cfg.IncomingAuth.Authz.Enabled()}, offers)
	if private == nil {
		b.lint(scripts)
	}
	return b.c
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

// byPriority is the order in which backends get names: that of the configuration, unless the priority strategy has
// another.
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
	b.c.Problems = append(b.c.Problems, diag.Problem{Severity: diag.Warning, Backend: backend, Entry: entry, Message: fmt.Sprintf(format, args...)})
}

// mistake is a problem that only a change of the configuration can solve.
func (b *builder) mistake(backend, entry, format string, args ...any) {
	b.problem(backend, entry, format, args...)
	b.c.Problems[len(b.c.Problems)-1].Severity = diag.Error
}

// prefix is the prefix of a backend's exposed names, cached.
func (b *builder) prefix(backend string) string {
	prefix, ok := b.prefixes[backend]
	if !ok {
		prefix = b.cfg.PrefixOf(backend)
		if b.prefixes == nil {
			b.prefixes = map[string]string{}
		}
		b.prefixes[backend] = prefix
	}
	return prefix
}

// Gone is an entry for a scripted tool that is no longer configured but has unfinished runs.
func Gone(name string) *Entry {
	t := scriptedGone(name)
	return &Entry{Name: name, Original: name, Definition: t.Definition, Hidden: true, Script: t}
}

func (b *builder) addScript(s *ScriptedTool) {
	b.c.scripts += s.Name + " " + s.Program.Hash() + "\n"
	e := &Entry{Name: s.Name, Original: s.Name, Script: s, Definition: s.Definition}
	if owner := b.c.toolByName[e.Name]; owner != nil {
		b.problem("", e.Name, "name refused: another scripted tool has it")
		return
	}
	b.c.toolByName[e.Name] = e
	b.tools = append(b.tools, e)
}

func (b *builder) addTools(be *backends.Backend, offer *backends.Offer) {
	rule := b.rules[be.Name()]
	exact := map[string]bool{} // names that are exposed unchanged
	for _, item := range offer.Tools {
		if text := b.toolText(be.Name(), rule, item.Name); exposed(text) == text {
			exact[text] = true
		}
	}
	for _, item := range offer.Tools {
		if err := definitionTool.Usable(item.Name, item.Raw); err != nil {
			b.problem(be.Name(), item.Name, "definition dropped: %v", err)
			continue
		}
		headers, err := wire.HeaderParams(item.Raw)
		if err != nil {
			b.problem(be.Name(), item.Name, "definition dropped: %v", err)
			continue
		}
		e := &Entry{Original: item.Name, Backend: be, headers: headers, Hidden: b.isHidden(rule, item.Name)}
		text := b.toolText(be.Name(), rule, item.Name)
		e.Name = exposed(text)
		if e.Name != text && exact[e.Name] {
			e.Name = hashed(text)
		}
		b.claimTool(e, rule, item)
	}
}

// toolText is a tool's name after override and strategy, before it is sanitised.
func (b *builder) toolText(backend string, rule *config.WorkloadTools, own string) string {
	if rule != nil && rule.Overrides[own].Name != "" {
		return b.prefix(backend) + rule.Overrides[own].Name
	}
	return b.prefix(backend) + own
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
	return !keeps(rule.Filter, own, rule.Overrides[own].Name)
}

// keeps reports whether a filter keeps an entry with these names: a glob matches one of them, or all globs begin with !
// and none matches.
func keeps(filter []string, names ...string) bool {
	wanted, unwanted := globs(filter)
	return (len(wanted) == 0 || matchesAny(wanted, names...)) && !matchesAny(unwanted, names...)
}

// globs splits a filter into its globs that include and, without the !, those that exclude.
func globs(filter []string) (wanted, unwanted []string) {
	for _, g := range filter {
		if g, not := strings.CutPrefix(g, "!"); not {
			unwanted = append(unwanted, g)
		} else {
			wanted = append(wanted, g)
		}
	}
	return wanted, unwanted
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

// claimTool gives e its name, unless another entry has it.
func (b *builder) claimTool(e *Entry, rule *config.WorkloadTools, item backends.Item) {
	backend := e.Backend.Name()
	var over config.ToolOverride
	if rule != nil {
		over = rule.Overrides[e.Original]
	}
	e.Definition = b.c.exposeInterface(backend, overrideTool(item.Raw, e.Name, over))
	for i := range b.cfg.Backends {
		if b.cfg.Backends[i].Name == backend {
			e.IdempotencyHeader = b.cfg.Backends[i].IdempotencyHeader
		}
	}
	e.trust(b.cfg, over)
	origin := backend + "." + e.Original
	if b.c.toolByOrigin[origin] == nil {
		b.c.toolByOrigin[origin] = e
	}
	if e.Hidden || b.c.toolByName[e.Name] != nil { // is in no list, so only scripts need to find it
		b.reportHiddenIn(e)
	}
	switch owner := b.c.toolByName[e.Name]; {
	case owner == nil && b.keptFor(Tool(e.Name), backend) != "":
		e.contested = true
		b.problem(backend, e.Original, "name %q refused: it belongs to %s, whose tool is withheld; scripts reach this tool as %q", e.Name, b.keptFor(Tool(e.Name), backend), origin)
	case owner == nil:
		b.c.toolByName[e.Name] = e
		b.tools = append(b.tools, e)
		b.addApp(e)
	case owner.Script != nil && e.Hidden: // the script replaces the tool
		b.c.shadowed[e.Name], e.contested = e, true
	case owner.Script != nil:
		b.c.shadowed[e.Name], e.contested = e, true
		b.mistake(backend, e.Original, "name %q belongs to a scripted tool: rename one of the two; until then clients and scripts that call %[1]q get the script, and scripts reach this tool as %q", e.Name, origin)
	default:
		e.contested, owner.contested = true, true
		b.problem(backend, e.Original, "name %q refused: it belongs to %s; scripts reach this tool as %q", e.Name, owner.Origin(), origin)
	}
}

// overrideTool changes what the configuration and the strategy change, and keeps all other bytes.
func overrideTool(def json.RawMessage, name string, over config.ToolOverride) json.RawMessage {
	def = overrideText(def, name, over.Description)
	if over.Annotations != nil {
		annotations := jsonscan.Get(def, "annotations")
		changed, _ := json.Marshal(over.Annotations)
		jsonscan.Each(changed, func(k, v []byte) bool {
			annotations = jsonscan.Set(annotations, string(k), v)
			return true
		})
		def = jsonscan.Set(def, "annotations", annotations)
	}
	return def
}

// overrideText sets the name and, if it is not empty, the description.
func overrideText(def json.RawMessage, name, description string) json.RawMessage {
	if name != "" && jsonscan.GetString(def, "name") != name {
		def = jsonscan.Set(def, "name", jsonscan.Quote(name))
	}
	if description != "" {
		def = jsonscan.Set(def, "description", jsonscan.Quote(description))
	}
	return def
}

func (b *builder) addPrompts(be *backends.Backend, offer *backends.Offer) {
	rule := b.promptRules[be.Name()]
	for _, item := range offer.Prompts {
		over := rule.Overrides[item.Name]
		if rule.ExcludeAll || !keeps(rule.Filter, item.Name, over.Name) {
			continue
		}
		if err := definitionPrompt.Usable(item.Name, item.Raw); err != nil {
			b.problem(be.Name(), item.Name, "prompt dropped: %v", err)
			continue
		}
		e := &Entry{Kind: policy.Prompt, Original: item.Name, Backend: be, Name: exposed(b.prefix(be.Name()) + cmp.Or(over.Name, item.Name))}
		if owner := b.c.promptByName[e.Name]; owner != nil {
			owner.contested = true
			b.problem(be.Name(), item.Name, "prompt name %q refused: it belongs to %s", e.Name, owner.Origin())
			continue
		}
		if owner := b.keptFor(Prompt(e.Name), be.Name()); owner != "" {
			b.problem(be.Name(), item.Name, "prompt name %q refused: it belongs to %s, whose prompt is withheld", e.Name, owner)
			continue
		}
		e.Definition = overrideText(item.Raw, e.Name, over.Description)
		b.c.promptByName[e.Name] = e
	}
}

// finish sorts the lists: scripted tools first, then the backends in the configuration's order, each in its own order.
func (b *builder) finish(page pageStyle, offers map[string]*backends.Offer) {
	c := b.c
	for _, e := range b.tools {
		if e.Script != nil {
			b.annotate(e)
		}
	}
	visible := slices.DeleteFunc(slices.Clone(b.tools), func(e *Entry) bool { return e.Hidden })
	rank := map[string]int{}
	for i, be := range b.cfg.Backends {
		rank[be.Name] = i + 1
	}
	slices.SortStableFunc(visible, func(x, y *Entry) int { return cmp.Compare(x.rank(rank), y.rank(rank)) })
	tools, prompts, resources, templates := page, page, page, page
	for _, o := range offers {
		tools, prompts = tools.with(o.ToolsMeta), prompts.with(o.PromptsMeta)
		resources, templates = resources.with(o.ResourcesMeta), templates.with(o.TemplatesMeta)
	}
	c.tools = b.list("tools", definitionTool, visible, tools)
	c.prompts = b.list("prompts", definitionPrompt, sortedEntries(c.promptByName, rank), prompts)
	c.resources = b.list("resources", definitionResource, sortedEntries(c.resourceByURI, rank), resources)
	c.templates = b.list("resourceTemplates", definitionTemplate, sortedEntries(c.templateByText, rank), templates)
	c.routes = byLiteral(c.templates.entries)
	c.parts = b.composeInstructions(offers)
	c.instructions = joinInstructions(c.parts)
	for _, l := range c.lists() {
		for _, e := range l.entries {
			e.index = len(c.entries)
			c.entries = append(c.entries, e)
		}
	}
	c.everything = &View{c: c}
	b.addProfiles()
	b.checkShadowed()
}

// list makes a list of entries in the forms for both eras of clients.
func (b *builder) list(member string, kind definitionKind, entries []*Entry, style pageStyle) *list {
	for _, e := range entries {
		b.reportHiddenIn(e)
		var notes []string
		e.legacy, e.modern, notes = kind.Repair(e.Name, e.Definition)
		for _, note := range notes {
			b.problem(e.backendName(), e.Original, "definition repaired: %s", note)
		}
	}
	return newList(member, entries, style)
}

func (e *Entry) backendName() string {
	if e.Backend == nil {
		return ""
	}
	return e.Backend.Name()
}

func (e *Entry) rank(ranks map[string]int) int {
	if e.Backend == nil {
		return 0
	}
	return ranks[e.Backend.Name()]
}

func sortedEntries(m map[string]*Entry, ranks map[string]int) []*Entry {
	out := make([]*Entry, 0, len(m))
	for _, e := range m {
		out = append(out, e)
	}
	slices.SortFunc(out, func(x, y *Entry) int {
		return cmp.Or(cmp.Compare(x.rank(ranks), y.rank(ranks)), cmp.Compare(x.Name, y.Name))
	})
	return out
}
