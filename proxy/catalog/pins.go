package catalog

import (
	"cmp"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// What a backend offers is compared with its pins in vmcp.lock before anything else: a blocked entry is in no list and
// can be called by no script. A changed entry that is blocked keeps its name from other backends, so that no other tool
// is called in its place. A new entry that is blocked does not, or it could take the name of an approved one. All of
// this happens in applyPins, through which every catalog is built: the common one, and those of sessions to which a
// backend offers something else.

// applyPins returns the entries of an offer that are not blocked.
func (b *builder) applyPins(p *Pins, backend string, offer *backends.Offer) *backends.Offer {
	switch {
	case p == nil:
		return offer
	case !p.Has(backend):
		if p.BlocksNew() {
			b.problem(backend, "pins", "%s has no entries of it: all that it offers is served; vmcp lock --backend %s pins it", p.Name, backend)
		}
		return offer
	}
	held := *offer
	held.Tools = b.pinnedItems(p, backend, lock.Tool, offer.Tools)
	held.Prompts = b.pinnedItems(p, backend, lock.Prompt, offer.Prompts)
	held.Resources = b.pinnedItems(p, backend, lock.Resource, offer.Resources)
	held.Templates = b.pinnedItems(p, backend, lock.Template, offer.Templates)
	if v := p.Instructions(backend, offer.Instructions); v != nil && b.violated(v) {
		b.reportHidden(backend, instructions, offer.Instructions)
		held.Instructions = ""
	}
	return &held
}

func (b *builder) pinnedItems(p *Pins, backend string, kind lock.Kind, items []backends.Item) []backends.Item {
	kept := items[:0:0]
	for _, item := range items {
		v := p.Entry(lock.Name{Kind: kind, Backend: backend, Own: item.Name}, item.Raw)
		if v == nil || !b.violated(v) {
			kept = append(kept, item)
			continue
		}
		b.reportHiddenText(backend, item.Name, item.Raw)
		b.withhold(v)
	}
	return kept
}

// withhold notes the names by which a blocked entry would have been found.
func (b *builder) withhold(v *Violation) {
	n := v.Name
	note := func(r Ref) {
		b.c.withheld[r] = true
		if !v.New && b.reserved[r] == "" {
			b.reserved[r] = n.Backend
		}
	}
	switch n.Kind {
	case lock.Tool:
		text := b.toolText(n.Backend, b.rules[n.Backend], n.Own)
		note(Tool(exposed(text)))
		for _, name := range []string{exposed(text), hashed(text), n.Backend + "." + n.Own} {
			b.c.withheld[Tool(name)], b.c.withheld[AnyTool(name)] = true, true
		}
	case lock.Prompt:
		over := b.promptRules[n.Backend].Overrides[n.Own]
		note(Prompt(exposed(b.prefix(n.Backend) + cmp.Or(over.Name, n.Own))))
	case lock.Resource:
		note(Resource(b.c.ExposedURI(n.Backend, n.Own)))
	case lock.Template:
		note(Template(b.c.ExposedURI(n.Backend, n.Own)))
	}
}

// keptFor is the backend whose blocked entry keeps a name from another backend; "" for none.
func (b *builder) keptFor(r Ref, backend string) string {
	if owner := b.reserved[r]; owner != backend {
		return owner
	}
	return ""
}

// Withholds reports whether r names nothing because the entry is blocked. No other catalog is searched for it then.
func (c *Catalog) Withholds(r Ref) bool { return c.withheld[r] && c.Find(r) == nil }

// violated records a violation and reports whether the entry is blocked.
func (b *builder) violated(v *Violation) (withheld bool) {
	b.c.Violations = append(b.c.Violations, *v)
	b.problem(v.Name.Backend, v.Entry(), "%s", v.Reason)
	return v.Withheld
}

// reportHiddenText reports invisible characters in the parts of a definition that clients do not get.
func (b *builder) reportHiddenText(backend, entry string, raw []byte) {
	if !jsonscan.PlainText(raw) {
		b.reportHidden(backend, entry, textsOf(raw))
	}
}

// Unpinned counts the violations of a backend.
func (c *Catalog) Unpinned(be *backends.Backend) (n int) {
	for _, v := range c.Violations {
		if v.Name.Backend == be.Name() {
			n++
		}
	}
	return n
}
