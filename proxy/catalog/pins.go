package catalog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/lock"
	"github.com/vmcp-dev/vmcp/proxy/catalog/naming"
)

// What a backend offers is held to its pins before anything else is made of it: what is withheld
// stands behind no script and is in no list. An entry that has changed keeps its name from other
// backends: nobody is to be called in its place. One without a pin does not, or it would take the
// name from who was approved with it. There is one place for that, hold,
// and every catalog is built through it: that of everybody, and those of sessions to which a
// backend offers something of their own.

// pins are what a configuration holds its backends to; nil holds them to nothing.
type pins struct {
	file            *lock.File
	name            string // of the file, for messages
	onChange, onNew string
}

// readPins reads the pins of a configuration.
func readPins(cfg *config.Config) (*pins, error) {
	c := cfg.Pins
	if !c.Wanted() {
		return nil, nil
	}
	f, err := lock.Read(c.Path)
	switch {
	case err == nil:
		return &pins{f, diag.File(c.Path), c.OnChange, c.OnNew}, nil
	case errors.Is(err, fs.ErrNotExist) && !c.Required:
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, diag.Problem{Pos: cfg.Place("pins"), Path: "pins.file", Code: lock.Code,
			Message: fmt.Sprintf("there is no %s, and so nothing to hold the backends to", diag.File(c.Path)), Hint: "vmcp lock writes it"}
	}
	return nil, err
}

// Violation is an entry of a backend, or its instructions, that is not what is pinned.
type Violation struct {
	Name     lock.Name
	New      bool   // it has no pin, and should have one
	Withheld bool   // clients and scripts do not have it
	Pinned   string // the SHA-256 of its pin; "" for none
	Offered  string // that of what the backend offers; "" when it cannot be computed
	// Reason says what differs in words of ours: a backend that changes a text over and over
	// again does not fill the log with it.
	Reason string
}

// instructionsEntry names the instructions of a backend in a Problem.
const instructionsEntry = "instructions"

// Entry is the name of the entry in a Problem.
func (v *Violation) Entry() string {
	if v.Name.Kind == lock.Instructions {
		return instructionsEntry
	}
	return v.Name.Own
}

// hold is what is left of an offer after what is withheld.
func (b *builder) hold(p *pins, backend string, offer *backends.Offer) *backends.Offer {
	switch {
	case p == nil:
		return offer
	case !p.file.Has(backend):
		if p.onNew == "block" {
			b.problem(backend, "pins", "nothing of it is in %s: all that it offers is served; vmcp lock --backend %s pins it", p.name, backend)
		}
		return offer
	}
	held := *offer
	held.Tools = b.holdItems(p, backend, lock.Tool, offer.Tools)
	held.Prompts = b.holdItems(p, backend, lock.Prompt, offer.Prompts)
	held.Resources = b.holdItems(p, backend, lock.Resource, offer.Resources)
	held.Templates = b.holdItems(p, backend, lock.Template, offer.Templates)
	if v := p.instructions(backend, offer.Instructions); v != nil && b.violated(p, v) {
		b.reportHidden(backend, instructionsEntry, offer.Instructions)
		held.Instructions = ""
	}
	return &held
}

func (b *builder) holdItems(p *pins, backend string, kind lock.Kind, items []backends.Item) []backends.Item {
	kept := items[:0:0]
	for _, item := range items {
		v := p.entry(lock.Name{Kind: kind, Backend: backend, Own: item.Name}, item.Raw)
		if v == nil || !b.violated(p, v) {
			kept = append(kept, item)
			continue
		}
		b.reportHiddenText(backend, item.Name, item.Raw)
		b.withhold(v)
	}
	return kept
}

// withhold notes under which names an entry would have been found.
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
		note(Tool(naming.Exposed(text)))
		for _, name := range []string{naming.Exposed(text), naming.Hashed(text), n.Backend + "." + n.Own} {
			b.c.withheld[Tool(name)], b.c.withheld[AnyTool(name)] = true, true
		}
	case lock.Prompt:
		over := b.promptRules[n.Backend].Overrides[n.Own]
		note(Prompt(naming.Exposed(b.prefix(n.Backend) + cmp.Or(over.Name, n.Own))))
	case lock.Resource:
		note(Resource(b.c.ExposedURI(n.Backend, n.Own)))
	case lock.Template:
		note(Template(b.c.ExposedURI(n.Backend, n.Own)))
	}
}

// keptFor is the backend whose entry is withheld and keeps a name from backend; "" for none.
func (b *builder) keptFor(r Ref, backend string) string {
	if owner := b.reserved[r]; owner != backend {
		return owner
	}
	return ""
}

// Withholds reports whether what nobody finds by a name is there, and not as it is pinned. No
// other catalog shall be asked for it.
func (c *Catalog) Withholds(r Ref) bool { return c.withheld[r] && c.Find(r) == nil }

// violated notes a violation and reports whether the entry is withheld.
func (b *builder) violated(p *pins, v *Violation) (withheld bool) {
	mode := p.onChange
	if v.New {
		mode = p.onNew
	}
	v.Withheld = mode == "block"
	done := "served all the same"
	if v.Withheld {
		done = "withheld"
	}
	v.Reason += ": " + done
	b.c.Violations = append(b.c.Violations, *v)
	b.problem(v.Name.Backend, v.Entry(), "%s", v.Reason)
	return v.Withheld
}

// entry holds a definition to its pin; nil when there is nothing to say.
func (p *pins) entry(n lock.Name, raw []byte) *Violation {
	pin, pinned := p.file.Entries[n]
	if !pinned && p.onNew != "block" || pinned && p.onChange == "off" {
		return nil
	}
	definition, err := lock.Definition(raw)
	if pinned && err == nil && bytes.Equal(definition, pin.Definition) {
		return nil
	}
	v := &Violation{Name: n, New: !pinned, Pinned: pin.SHA256}
	if err == nil {
		v.Offered = lock.Sum(definition)
	}
	switch {
	case !pinned:
		v.Reason = fmt.Sprintf("%s is not in %s", n.Kind, p.name)
	case err != nil:
		v.Reason = fmt.Sprintf("%s differs from %s, for it cannot be read: %v", n.Kind, p.name, err)
	default:
		changed := lock.Parts(lock.Differences(n.Kind, pin.Definition, definition))
		v.Reason = fmt.Sprintf("%s differs from %s in %s", n.Kind, p.name, changed)
	}
	return v
}

// instructions holds the instructions of a backend to their pin.
func (p *pins) instructions(backend, text string) *Violation {
	pin, pinned := p.file.Backends[backend]
	switch {
	case pinned && (p.onChange == "off" || pin.Instructions == text):
		return nil
	case !pinned && (p.onNew != "block" || text == ""):
		return nil
	case text == "": // nobody can read what is not there
		return nil
	}
	v := &Violation{Name: lock.Name{Kind: lock.Instructions, Backend: backend}, New: !pinned, Offered: lock.Sum([]byte(text))}
	if pinned && pin.Instructions != "" {
		v.Pinned = lock.Sum([]byte(pin.Instructions))
	}
	v.Reason = fmt.Sprintf("instructions differ from %s", p.name)
	if v.New {
		v.Reason = fmt.Sprintf("instructions are not in %s", p.name)
	}
	return v
}

// reportHiddenText reports hidden characters in a definition that no client sees.
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

// A PinReport remembers which violations were reported. Its zero value is ready.
type PinReport struct {
	mu      sync.Mutex
	all     map[Violation]bool // in the catalog of everybody; guarded by mu
	private map[Violation]bool // in those of sessions; guarded by mu
	minute  time.Time          // when the reports were counted from; guarded by mu
	reports int                // since minute; guarded by mu
}

const (
	// maxPrivateReports bounds what is remembered of the catalogs of sessions.
	maxPrivateReports = 4096
	// maxReports bounds the violations that are reported in a minute: a backend that is never
	// twice the same shall not push everything else out of the audit.
	maxReports = 1000
)

// News are the violations of a catalog that were not reported yet, without those that are too
// many. One that was gone from the catalog of everybody is reported again.
func (r *PinReport) News(c *Catalog) (news []Violation, leftOut int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := map[Violation]bool{}
	for _, v := range c.Violations {
		if !r.all[v] && !r.private[v] && !now[v] {
			news = append(news, v)
		}
		now[v] = true
	}
	if c.private {
		r.rememberPrivate(news)
	} else {
		r.all = now
	}
	if time.Since(r.minute) > time.Minute {
		r.minute, r.reports = time.Now(), 0
	}
	room := min(len(news), maxReports-r.reports)
	r.reports += room
	return news[:room], len(news) - room
}

// rememberPrivate is called with mu held.
func (r *PinReport) rememberPrivate(news []Violation) {
	if r.private == nil || len(r.private)+len(news) > maxPrivateReports {
		r.private = map[Violation]bool{}
	}
	for _, v := range news {
		r.private[v] = true
	}
}
