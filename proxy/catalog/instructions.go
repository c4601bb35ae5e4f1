package catalog

import (
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// maxInstructions bounds the instructions of all backends together, in bytes: clients add them to every conversation.
const maxInstructions = 16 << 10

// instructionsOf is one backend's part of the instructions.
type instructionsOf struct{ backend, text string }

func joinInstructions(parts []instructionsOf) string {
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.text)
	}
	return strings.Join(texts, "\n\n")
}

// composeInstructions joins the instructions of the backends, each under its name, and cuts those above their share.
func (b *builder) composeInstructions(offers map[string]*backends.Offer) (parts []instructionsOf) {
	var names, texts []string
	room := maxInstructions
	for _, be := range b.cfg.Backends {
		o := offers[be.Name]
		if o == nil || strings.TrimSpace(o.Instructions) == "" {
			continue
		}
		heading := ""
		if len(b.cfg.Backends) > 1 {
			heading = "# " + be.Name + "\n"
		}
		room -= len(heading) + len("\n\n")
		names, texts = append(names, be.Name), append(texts, strings.TrimSpace(o.Instructions))
		b.reportHidden(be.Name, "instructions", o.Instructions)
	}
	share := display.Share(texts, room)
	for i, text := range texts {
		if len(text) > share {
			b.problem(names[i], "instructions", "cut to %d of %d bytes: the limit of all backends together is %d", share, len(text), maxInstructions)
			text = cutText(text, share)
		}
		if len(b.cfg.Backends) > 1 {
			text = "# " + names[i] + "\n" + text
		}
		parts = append(parts, instructionsOf{names[i], text})
	}
	return parts
}

const cutMark = " […]"

// cutText is the beginning of a text, at most n bytes including the mark at its end.
func cutText(text string, n int) string {
	return display.Bytes(text, max(0, n-len(cutMark))) + cutMark
}

// reportHidden reports invisible characters in a backend's texts.
func (b *builder) reportHidden(backend, entry string, texts ...string) {
	var names []string
	for _, text := range texts {
		names = append(names, display.Hidden(text)...)
	}
	const most = 8
	switch {
	case len(names) > most:
		b.problem(backend, entry, "holds %d kinds of hidden characters: %s and so on", len(names), strings.Join(names[:most], ", "))
	case len(names) > 0:
		b.problem(backend, entry, "holds hidden characters: %s", strings.Join(names, ", "))
	}
}

// reportHiddenIn is reportHidden for all texts of a definition.
func (b *builder) reportHiddenIn(e *Entry) {
	if e.Backend == nil || jsonscan.PlainText(e.Definition) {
		return
	}
	b.reportHidden(e.Backend.Name(), e.Original, textsOf(e.Definition))
}

// textsOf are all texts of a definition.
func textsOf(definition []byte) string {
	var all strings.Builder
	jsonscan.EachText(definition, func(text string) { all.WriteString(text + " ") })
	return all.String()
}
