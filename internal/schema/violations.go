package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/vmcp-dev/vmcp/internal/display"
)

// Violation is one place at which a value is not valid by its schema.
type Violation struct {
	// Path is the path of the place: "items[2].name"; "" for the value itself.
	Path string
	// At is the same path as a list of member names and indices.
	At []string
	// Kind distinguishes missing, unknown and wrong members.
	Kind Kind
	// Message says what is wrong, and what would be right.
	Message string
}

func (v Violation) String() string {
	if v.Path == "" {
		return v.Message
	}
	return v.Path + ": " + v.Message
}

// Kind is the kind of a violation.
type Kind int

// The kinds of violations.
const (
	badValue  Kind = iota // anything else
	wrongType             // such as a string instead of a number
	missing               // a required member
	unknown               // a member that the schema does not allow
)

// Violations are all violations of a schema by one value.
type Violations []Violation

// Error lists the violations, at most 50.
func (v Violations) Error() string {
	const most = 50
	var lines []string
	for _, one := range v[:min(len(v), most)] {
		lines = append(lines, one.String())
	}
	if more := len(v) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "; ")
}

var english = message.NewPrinter(language.English)

// violations flattens the tree of a validation error into a sorted list without duplicates.
func violations(e *jsonschema.ValidationError) Violations {
	var out Violations
	collect(e, &out)
	slices.SortStableFunc(out, func(a, b Violation) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(out, func(a, b Violation) bool { return a.Path == b.Path && a.Message == b.Message })
}

func collect(e *jsonschema.ValidationError, out *Violations) {
	add := func(kind Kind, path []string, format string, args ...any) {
		*out = append(*out, Violation{pathOf(path), path, kind, display.ClipText(fmt.Sprintf(format, args...), 500)})
	}
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			add(missing, append(slices.Clone(at), name), "is required")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			add(unknown, append(slices.Clone(at), name), "is not a known property")
		}
	case *kind.Type:
		add(wrongType, at, "want %s, have %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		add(badValue, at, "want one of %s, have %s", list(k.Want), show(k.Got))
	case *kind.Const:
		add(badValue, at, "want %s, have %s", show(k.Want), show(k.Got))
	case *kind.AnyOf, *kind.OneOf:
		if len(e.Causes) == 0 {
			add(badValue, at, "%s", e.ErrorKind.LocalizedString(english))
			return
		}
		add(badValue, at, "fits none of the alternatives: %s", alternatives(e.Causes))
	default:
		if len(e.Causes) == 0 {
			add(badValue, at, "%s", strings.ReplaceAll(e.ErrorKind.LocalizedString(english), "'", `"`))
			return
		}
		for _, cause := range e.Causes {
			collect(cause, out)
		}
	}
}

// alternatives returns for each alternative why it does not match.
func alternatives(causes []*jsonschema.ValidationError) string {
	var texts []string
	for _, c := range causes {
		texts = append(texts, violations(c).Error())
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), " | ")
}

// pathOf formats a path: "items[2].name".
func pathOf(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		if _, err := strconv.Atoi(p); err == nil {
			b.WriteString("[" + p + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(p)
	}
	return b.String()
}

func list(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = show(v)
	}
	return strings.Join(texts, ", ")
}

// show formats a value for a message, cut to 80 bytes.
func show(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(display.ClipText(s, 80))
	}
	data, err := marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return display.ClipText(string(data), 80)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
