package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// This part of the package compares what backends offer with the reviewed definitions in vmcp.lock: what differs, whether it is
// blocked (withheld), and which differences were reported already.

// Pins are the pinned definitions of a configuration; nil if nothing is pinned.
type Pins struct {
	Name            string // path of the file, for messages
	file            *lock.File
	onChange, onNew string
}

// read reads the lock file of a configuration.
func read(cfg *config.Config) (*Pins, error) {
	c := cfg.Pins
	if !c.Wanted() {
		return nil, nil
	}
	f, err := lock.Read(c.Path)
	switch {
	case err == nil:
		return &Pins{diag.File(c.Path), f, c.OnChange, c.OnNew}, nil
	case errors.Is(err, fs.ErrNotExist) && !c.Required:
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, diag.Problem{Pos: cfg.Place("pins"), Path: "pins.file", Code: lock.Code,
			Message: fmt.Sprintf("there is no %s, so that the backends cannot be compared with it", diag.File(c.Path)), Hint: "vmcp lock writes it"}
	}
	return nil, err
}

// Has reports whether any entry of a backend is pinned.
func (p *Pins) Has(backend string) bool { return p.file.Has(backend) }

// BlocksNew reports whether entries without a pin are blocked, for backends that have pins.
func (p *Pins) BlocksNew() bool { return p.onNew == "block" }

// Violation is an entry of a backend, or its instructions, that differs from its pin.
type Violation struct {
	Name     lock.Name
	New      bool   // it has no pin, and needs one
	Withheld bool   // it is blocked for clients and scripts
	Pinned   string // SHA-256 of its pin; "" for none
	Offered  string // SHA-256 of what the backend offers; "" if it cannot be computed
	// Reason says what differs, without text of the backend: one that changes a text repeatedly cannot fill the log
	// with it.
	Reason string
}

// instructions names the instructions of a backend in a Problem.
const instructions = "instructions"

// Entry is the name of the entry in a Problem.
func (v *Violation) Entry() string {
	if v.Name.Kind == lock.Instructions {
		return instructions
	}
	return v.Name.Own
}

// Entry compares a definition with its pin; nil if they are equal or the differences are not configured to be reported.
func (p *Pins) Entry(n lock.Name, raw []byte) *Violation {
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
		v.Reason = fmt.Sprintf("%s is not in %s", n.Kind, p.Name)
	case err != nil:
		v.Reason = fmt.Sprintf("%s differs from %s: its definition is invalid: %v", n.Kind, p.Name, err)
	default:
		changed := lock.Parts(lock.Differences(n.Kind, pin.Definition, definition))
		v.Reason = fmt.Sprintf("%s differs from %s in %s", n.Kind, p.Name, changed)
	}
	return p.decided(v)
}

// Instructions compares the instructions of a backend with their pin.
func (p *Pins) Instructions(backend, text string) *Violation {
	pin, pinned := p.file.Backends[backend]
	switch {
	case pinned && (p.onChange == "off" || pin.Instructions == text):
		return nil
	case !pinned && (p.onNew != "block" || text == ""):
		return nil
	case text == "": // no text, nothing to review
		return nil
	}
	v := &Violation{Name: lock.Name{Kind: lock.Instructions, Backend: backend}, New: !pinned, Offered: lock.Sum([]byte(text))}
	if pinned && pin.Instructions != "" {
		v.Pinned = lock.Sum([]byte(pin.Instructions))
	}
	v.Reason = fmt.Sprintf("instructions differ from %s", p.Name)
	if v.New {
		v.Reason = fmt.Sprintf("instructions are not in %s", p.Name)
	}
	return p.decided(v)
}

// decided sets whether the entry is blocked, and adds that to the reason.
func (p *Pins) decided(v *Violation) *Violation {
	mode, done := p.onChange, "served nevertheless"
	if v.New {
		mode = p.onNew
	}
	if v.Withheld = mode == "block"; v.Withheld {
		done = "withheld"
	}
	v.Reason += ": " + done
	return v
}
