package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"sync/atomic"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

// What a principal sees of a catalog.
//
// Policies decide by entry and principal. Without arguments the decision is the same for all principals of a class
// (policy.Principal.Class), so that each class has one View of a catalog: the entries that it sees, and the pages of
// its lists. A catalog keeps the maxViews views that were used last. Each decision is made once, on first use.
//
// A profile narrows a view to a part of the catalog, for every principal. Without policies there is one view per
// profile.
//
// An entry that a view does not show does not exist for it: Find, lists, suggestions and instructions give the same
// result as for a name that no entry has.
//
// Locks: views.mu guards the table of views, View.mu the interned decisions, keptPages.mu the page cache. None is held
// while another is acquired.

// maxViews bounds the cached views of a catalog.
const maxViews = 256

// A View is a catalog as the principals of one class see it through one profile. Safe for concurrent use.
// concurrent use.
type View struct {
	c       *Catalog
	profile *Profile          // nil: no profile
	set     *policy.Set       // nil: no policies
	who     *policy.Principal // a principal of the class
	key     viewKey
	class   string // in cursors
	used    uint64 // order of the last use; guarded by c.views.mu
	lists   [kindsOfLists]viewedList
	// decided has the decisions about c.entries by index; nil where none was made yet.
	decided []atomic.Pointer[policy.Decision]

	mu       sync.Mutex
	distinct []*policy.Decision // guarded by mu: most entries share one
}

// viewedList is one list of a view, made on first use.
type viewedList struct {
	once  sync.Once
	list  *list
	whole bool // it shows all entries

	printed sync.Once
	print   Print
}

// views are the views of one catalog under one set of policies.
type views struct {
	mu    sync.Mutex
	set   *policy.Set // guarded by mu, like all below
	all   map[viewKey]*View
	clock uint64 // of View.used
	pages keptPages
}

// viewKey identifies a view of a catalog.
type viewKey struct {
	class   [sha256.Size]byte // of principals
	profile string            // "": none
}

// forgetOne drops the view that was unused for longest. mu is held.
func (t *views) forgetOne() {
	var oldest *View
	for _, v := range t.all {
		if oldest == nil || v.used < oldest.used {
			oldest = v
		}
	}
	delete(t.all, oldest.key)
}

// addProfiles makes the views of the profiles, and reports those with more tools than maxTools.
func (b *builder) addProfiles() {
	b.c.configured = b.cfg.Profiles
	b.c.profiles = make(map[string]*View, len(b.cfg.Profiles))
	for i := range b.cfg.Profiles {
		p := New(&b.cfg.Profiles[i])
		v := &View{c: b.c, profile: p, class: "/" + p.Name}
		b.c.profiles[p.Name] = v
		if n := v.Tools(); p.MaxTools > 0 && n > p.MaxTools {
			b.problem("", "profile "+p.Name, "has %d tools, and maxTools is %d: narrow its tools or workloads", n, p.MaxTools)
			b.c.Problems[len(b.c.Problems)-1].Path = config.IndexPath("profiles", i) + ".maxTools"
		}
	}
}

// Profiles are the profiles of the configuration.
func (c *Catalog) Profiles() []config.Profile { return c.configured }

// Through is the view without policies, through a profile ("": none). An unknown profile shows nothing.
func (c *Catalog) Through(name string) *View {
	if name == "" {
		return c.everything
	}
	if v := c.profiles[name]; v != nil {
		return v
	}
	return &View{c: c, profile: Unknown(name), class: "/" + name}
}

// View is what the class of who sees of c under set, through a profile ("": none).
func (c *Catalog) View(set *policy.Set, who *policy.Principal, through string) *View {
	key := viewKey{who.Class(), through}
	t := &c.views
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.set != set {
		t.set, t.all = set, map[viewKey]*View{}
	}
	v := t.all[key]
	if v == nil {
		if len(t.all) == maxViews {
			t.forgetOne()
		}
		p := c.Through(through)
		v = &View{c: c, profile: p.profile, set: set, who: who, key: key, class: classText(key.class) + p.class, decided: make([]atomic.Pointer[policy.Decision], len(c.entries))}
		t.all[key] = v
	}
	t.clock++
	v.used = t.clock
	return v
}

// Catalog is the catalog of v.
func (v *View) Catalog() *Catalog { return v.c }

// Whole reports whether v shows everything: no profile and no policies.
func (v *View) Whole() bool { return v.set == nil && v.profile == nil }

// Tools is the number of tools that v lists.
func (v *View) Tools() int { return len(v.shown(v.c.tools.entries)) }

// Decision is what policies say about an entry with unknown arguments. The entry is visible unless that is
// policy.Invisible.
func (v *View) Decision(e *Entry) policy.Decision {
	i := e.index
	if i >= len(v.c.entries) || v.c.entries[i] != e {
		return v.set.Possible(v.who, e.InPolicies(v.set)) // an entry in no list
	}
	if d := v.decided[i].Load(); d != nil {
		return *d
	}
	d := v.intern(v.set.Possible(v.who, e.InPolicies(v.set)))
	v.decided[i].Store(d)
	return *d
}

// maxDistinct bounds the decisions that intern compares.
const maxDistinct = 32

// intern returns an equal earlier decision, so that entries share it.
func (v *View) intern(d policy.Decision) *policy.Decision {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, known := range v.distinct {
		if known.Equal(d) {
			return known
		}
	}
	if len(v.distinct) < maxDistinct {
		v.distinct = append(v.distinct, &d)
	}
	return &d
}

// Shows reports whether an entry exists for v.
func (v *View) Shows(e *Entry) bool {
	if e.of != nil && !v.Shows(e.of) {
		return false
	}
	return v.inProfile(e) && (v.set == nil || v.Decision(e).Outcome != policy.Invisible)
}

// inProfile reports whether the profile includes an entry.
func (v *View) inProfile(e *Entry) bool {
	switch {
	case v.profile == nil:
		return true
	case e.Script != nil:
		return v.profile.HasScript(e.Name)
	case e.Own != NotOwn: // a script's source goes with its tool
		return true
	case e.Kind == policy.Tool:
		return v.profile.HasTool(e.Backend.Name(), e.Name)
	}
	return v.profile.HasBackend(e.Backend.Name())
}

// MayShow reports whether v may show an entry of a backend.
func (v *View) MayShow(backend string) bool { return v.profile.HasBackend(backend) }

// MayHave is Catalog.MayHave, limited to what v would show.
func (v *View) MayHave(r Ref) (*backends.Backend, backends.State) {
	return v.c.mayHave(r, func(be *backends.Backend) bool {
		if r.kind == kindTool || r.kind == kindAnyTool {
			return v.profile.HasTool(be.Name(), r.name)
		}
		return v.profile.HasBackend(be.Name())
	})
}

// Denies reports whether r names a visible entry that the principal may not use.
func (v *View) Denies(r Ref) bool {
	if v.Whole() {
		return false
	}
	e := v.c.Find(r)
	return e != nil && (!v.inProfile(e) || e.of != nil && !v.Shows(e.of) || v.set != nil && v.Decision(e).Outcome != policy.Allow)
}

// Find returns the entry that r names; nil if it does not exist for v.
func (v *View) Find(r Ref) *Entry {
	if v.Whole() {
		return v.c.Find(r)
	}
	if r.kind == kindTool {
		return v.tool(r.name)
	}
	if e := v.c.Find(r); e != nil && v.Shows(e) {
		return e
	}
	return nil
}

func (v *View) tool(name string) *Entry {
	if e := v.c.toolByName[name]; e != nil && !e.Hidden && v.Shows(e) {
		return e
	}
	if apps := v.shown(v.c.apps[name]); len(apps) == 1 {
		return apps[0]
	}
	return nil
}

func (v *View) shown(entries []*Entry) (shown []*Entry) {
	for _, e := range entries {
		if v.Shows(e) {
			shown = append(shown, e)
		}
	}
	return shown
}

// list is one of the lists of v, and whether it shows all entries.
func (v *View) list(k listKind) (l *list, whole bool) {
	all := v.c.lists()[k]
	if v.Whole() {
		return all, true
	}
	seen := &v.lists[k]
	seen.once.Do(func() {
		shown := v.shown(all.entries)
		if len(shown) == len(all.entries) {
			seen.list, seen.whole = all, true
			return
		}
		seen.list = newList(all.kind, shown, all.style)
		seen.list.class, seen.list.kept = v.class, &v.c.views.pages
	})
	return seen.list, seen.whole
}

// Page is one page of the list that a method returns; ok is false if the cursor belongs to no page of this view.
func (v *View) Page(method, cursor string, modern bool) (result []byte, ok bool) {
	l, _ := v.list(listOf(method))
	return l.page(cursor, modern)
}

// A Print is a hash; it is equal for views in which a list has the same content.
type Print [sha256.Size]byte

// Print is the hash of the lists that a list_changed notification is about.
func (v *View) Print(changed string) Print {
	h := sha256.New()
	for _, k := range listsOf(changed) {
		p := v.printOf(k)
		h.Write(p[:])
	}
	return Print(h.Sum(nil))
}

func (v *View) printOf(k listKind) Print {
	seen := &v.lists[k]
	seen.printed.Do(func() {
		h := sha256.New()
		l, _ := v.list(k)
		for _, e := range l.entries {
			digest := e.print()
			h.Write(digest[:])
		}
		seen.print = Print(h.Sum(nil))
	})
	return seen.print
}

// usesOf reports whether v shows an entry of a backend.
func (v *View) usesOf(backend string) bool {
	for k := range kindsOfLists {
		for _, e := range v.c.lists()[k].entries {
			if e.backendName() == backend && v.Shows(e) {
				return true
			}
		}
	}
	return false
}

// classText identifies a class in cursors, so that a cursor of another class is refused.
func classText(class [sha256.Size]byte) string { return "@" + hex.EncodeToString(class[:8]) }

// maxKept bounds the cached pages of views that show a part of a list, in bytes. Others are encoded for each request.
const maxKept = 32 << 20

// keptPages is the cache of such pages. Eviction is random: with more classes than room that take turns, each finds
// some of its pages, whereas evicting the oldest would leave none.
type keptPages struct {
	mu    sync.Mutex
	pages map[pageKey][]byte // guarded by mu
	size  int                // guarded by mu
}

type pageKey struct {
	list   *list
	n      int
	modern bool
}

func (k *keptPages) page(l *list, n int, modern bool) []byte {
	key := pageKey{l, n, modern}
	k.mu.Lock()
	page := k.pages[key]
	k.mu.Unlock()
	if page == nil {
		page = l.pageOf(n, modern)
		k.keep(key, page)
	}
	return page
}

func (k *keptPages) keep(key pageKey, page []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pages[key] != nil || len(page) > maxKept {
		return
	}
	for other, p := range k.pages { // random order
		if k.size+len(page) <= maxKept {
			break
		}
		k.size -= len(p)
		delete(k.pages, other)
	}
	if k.pages == nil {
		k.pages = map[pageKey][]byte{}
	}
	k.pages[key] = page
	k.size += len(page)
}

// inPolicies is an entry in the form of one set of policies.
type inPolicies struct {
	set   *policy.Set
	entry *policy.Entry
}

// InPolicies is e in the form of a set of policies, cached.
func (e *Entry) InPolicies(set *policy.Set) *policy.Entry {
	if known := e.inPolicies.Load(); known != nil && known.set == set {
		return known.entry
	}
	of := policy.Of{Kind: e.Kind, Name: e.Name, Backend: config.ScriptsOrigin, Original: e.Original, Contested: e.contested}
	if e.Backend != nil {
		of.Backend = e.Backend.Name()
	}
	if e.Kind == policy.Tool {
		of.Hints = policy.HintsOf(jsonscan.Get(e.Definition, "annotations"))
	}
	made := &inPolicies{set, set.Entry(of)}
	e.inPolicies.Store(made)
	return made.entry
}

// print is the hash of an entry's definition, and of a script's program.
func (e *Entry) print() Print {
	if known := e.digest.Load(); known != nil {
		return *known
	}
	h := sha256.New()
	h.Write(e.Definition)
	if e.Script != nil {
		h.Write([]byte(e.Script.Program.Hash()))
	}
	if e.of != nil {
		h.Write([]byte(e.of.Script.Text))
	}
	made := Print(h.Sum(nil))
	e.digest.Store(&made)
	return made
}
