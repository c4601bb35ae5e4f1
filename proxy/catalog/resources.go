package catalog

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"github.com/vmcp-dev/vmcp/backends"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

// A URI belongs to the backend that lists it; otherwise to the matching template with the longest text before its first
// variable. A template that begins with a variable would match the URIs of others, and is dropped if there are others.

func (b *builder) addResources(be *backends.Backend, offer *backends.Offer) {
	rule := b.resourceRules[be.Name()]
	kept := func(item backends.Item, kind definitionKind) bool {
		if rule.ExcludeAll || !keeps(rule.Filter, item.Name) {
			return false
		}
		err := kind.Usable(item.Name, item.Raw)
		if err != nil {
			b.problem(be.Name(), item.Name, "resource dropped: %v", err)
		}
		return err == nil
	}
	entryOf := func(item backends.Item, member string) *Entry {
		over := rule.Overrides[item.Name]
		e := &Entry{Kind: policy.Resource, Name: b.c.ExposedURI(be.Name(), item.Name), Original: item.Name, Backend: be, Definition: overrideText(item.Raw, over.Name, over.Description)}
		if e.Name != e.Original {
			e.Definition = jsonscan.Set(e.Definition, member, jsonscan.Quote(e.Name))
		}
		return e
	}
	for _, item := range offer.Resources {
		if kept(item, definitionResource) {
			b.addResource(b.c.resourceByURI, entryOf(item, "uri"))
		}
	}
	for _, item := range offer.Templates {
		if !kept(item, definitionTemplate) {
			continue
		}
		e := entryOf(item, "uriTemplate")
		var err error
		if e.match, err = uritemplate.New(e.Name); err != nil {
			b.problem(be.Name(), item.Name, "template dropped: %v", err)
			continue
		}
		e.literal, _, _ = strings.Cut(e.Name, "{")
		if b.c.several && !rule.AllowAnyScheme && !literalScheme.MatchString(e.literal) {
			b.problem(be.Name(), item.Name, "template dropped: it begins with a variable, so that URIs of other backends would match it; to keep it, set allowAnyScheme in aggregation.resources")
			continue
		}
		b.addResource(b.c.templateByText, e)
	}
}

// addResource gives a URI to the first backend that offers it: URIs are not rewritten.
func (b *builder) addResource(owners map[string]*Entry, e *Entry) {
	if owner := owners[e.Name]; owner != nil {
		owner.contested = true
		by := owner.backendName()
		if owner.Own != NotOwn {
			by = owner.Origin()
		}
		b.problem(e.Backend.Name(), e.Name, "this URI is served by %s", by)
		return
	}
	if owner := b.keptFor(Resource(e.Name), e.Backend.Name()); owner != "" {
		b.problem(e.Backend.Name(), e.Name, "this URI is served by %s, whose resource is withheld", owner)
		return
	}
	owners[e.Name] = e
}

var literalScheme = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)

// byLiteral sorts templates in the order of matching: longer text before the first variable, then more text outside of
// variables, then the order of the lists.
func byLiteral(templates []*Entry) []*Entry {
	routes := slices.Clone(templates)
	slices.SortStableFunc(routes, func(x, y *Entry) int {
		return cmp.Or(cmp.Compare(len(y.literal), len(x.literal)), cmp.Compare(literalText(y.Name), literalText(x.Name)))
	})
	return routes
}

// literalText is the number of bytes of a template outside of its variables.
func literalText(template string) (n int) {
	for template != "" {
		text, rest, _ := strings.Cut(template, "{")
		n += len(text)
		_, template, _ = strings.Cut(rest, "}")
	}
	return n
}

// resource finds the entry that serves a URI; Original of the entry is the backend's URI.
func (c *Catalog) resource(uri string) *Entry {
	if e := c.resourceByURI[uri]; e != nil {
		return e
	}
	if c.withheld[Resource(uri)] {
		return nil // blocked: templates must not serve it either
	}
	for _, t := range c.routes {
		if strings.HasPrefix(uri, t.literal) && t.match.Match(uri) != nil {
			return &Entry{Kind: policy.Resource, Name: uri, Original: c.ownURI(t.Backend.Name(), uri), Backend: t.Backend}
		}
	}
	return nil
}
