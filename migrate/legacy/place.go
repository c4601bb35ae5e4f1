package legacy

import (
	"fmt"
	"strconv"
	"strings"
)

// place is the position of a template action: the at argument of the functions that can refuse
// their arguments, such as
//
//	deploy.arguments.env:1:9: .params.env.name
//
// that is the field of the workflow, line and column in its template, and the text of the action.
type place struct {
	path     []string // a list index is written as [0]
	position string
	template string // name of a definition inside of the template
	node     string
}

// parsePlace reads an at argument.
func parsePlace(at string) (p place, ok bool) {
	rest := at
	for {
		var segment string
		segment, rest = cutSegment(rest)
		p.path = append(p.path, segment)
		if !strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, "[") {
			break
		}
		rest = strings.TrimPrefix(rest, ".")
	}
	rest, ok = strings.CutPrefix(rest, ":")
	if !ok {
		return p, false
	}
	i := 0
	for i < len(rest) && (rest[i] == ':' || '0' <= rest[i] && rest[i] <= '9') {
		i++
	}
	p.position, rest = strings.TrimSuffix(rest[:i], ":"), rest[i:]
	p.template = "expand"
	if in, found := strings.CutPrefix(rest, " in "); found {
		quoted, err := strconv.QuotedPrefix(in)
		if err != nil {
			return p, false
		}
		p.template, _ = strconv.Unquote(quoted)
		rest = strings.TrimPrefix(in[len(quoted):], ":")
	}
	p.node = strings.TrimPrefix(rest, " ")
	return p, true
}

// cutSegment splits a name, a quoted name or a list index from the beginning of a path.
func cutSegment(s string) (segment, rest string) {
	if quoted, err := strconv.QuotedPrefix(s); err == nil {
		segment, _ = strconv.Unquote(quoted)
		return segment, s[len(quoted):]
	}
	if strings.HasPrefix(s, "[") {
		if end := strings.IndexByte(s, ']'); end > 0 {
			return s[:end+1], s[end+1:]
		}
	}
	end := strings.IndexAny(s, ".:[")
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:]
}

// templateError is the error of a template that failed with msg.
func templateError(at, msg string) error {
	p, ok := parsePlace(at)
	if !ok {
		return stepError(stepFailed, "template expansion failed: %s: %s", at, msg)
	}
	return p.fail(fmt.Sprintf("failed to execute template: template: expand:%s: executing %q at <%s>: %s",
		p.position, p.template, p.node, msg))
}

// fail adds to msg the prefix that the legacy engine gave to the errors of a template in that field.
func (p place) fail(msg string) error {
	if p.path[0] == "output" {
		return outputError("output construction failed: " + outputPath(p.path[1:]) + "failed to expand template for property " +
			strconv.Quote(p.path[len(p.path)-1]) + `: failed to expand value for key "_value": ` + msg)
	}
	field := ""
	if len(p.path) > 1 {
		field = p.path[1]
	}
	const expansion = "template expansion failed: "
	step := p.path[0]
	switch field {
	case "condition":
		return stepError(stepFailed, "%sfailed to evaluate condition for step %s: failed to evaluate condition: %s", expansion, step, msg)
	case "message":
		return stepError(stepFailed, "%sfailed to expand elicitation message for step %s: failed to expand value for key \"message\": %s", expansion, step, msg)
	case "collection":
		return stepError(stepFailed, "%sfailed to expand collection for forEach step %s: %s", expansion, step, msg)
	case "step":
		return stepError(stepFailed, "%s%s%s", expansion, keyPath(p.path[min(3, len(p.path)):]), msg)
	}
	return stepError(stepFailed, "%sfailed to expand arguments for step %s: %s%s", expansion, step, keyPath(p.path[min(2, len(p.path)):]), msg)
}

// keyPath names the argument with the template, the outermost key first.
func keyPath(path []string) string {
	var b strings.Builder
	for i, name := range path {
		switch {
		case strings.HasPrefix(name, "["):
			fmt.Fprintf(&b, "failed to expand array element %s: ", strings.Trim(name, "[]"))
		case i == 0:
			fmt.Fprintf(&b, "failed to expand value for key %q: ", name)
		default:
			fmt.Fprintf(&b, "failed to expand nested key %q: ", name)
		}
	}
	return b.String()
}

// outputPath names the outermost property of the output that could not be constructed.
func outputPath(path []string) string {
	return fmt.Sprintf("failed to construct output property %q: ", path[0])
}
