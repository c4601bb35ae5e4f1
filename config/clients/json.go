package clients

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// parseJSONText parses JSON with comments and trailing commas, without a byte order mark. The error is
// diag.Problems with a position in the file of that name.
func parseJSONText(filename string, data []byte) (*hujson.Value, error) {
	d := &document{name: diag.File(filename)}
	if at := deep(data); at >= 0 {
		line, column := position(data, at)
		return nil, d.problem(line, column, "more than %d values within each other", maxDepth)
	}
	v, err := hujson.Parse(data)
	if err != nil {
		line, column, message := jsonError(err.Error())
		return nil, d.problem(line, column, "%s", message)
	}
	if _, ok := v.Value.(*hujson.Object); !ok {
		line, column := position(data, v.StartOffset)
		return nil, d.problem(line, column, "want an object")
	}
	return &v, nil
}

// json parses JSON with comments and trailing commas.
func (d *document) json(data []byte) (*node, error) {
	v, err := parseJSONText(string(d.name), data)
	if err != nil {
		return nil, err
	}
	j := &jsonReader{document: d, places: newPlaces(data)}
	root := j.value(v)
	if root == nil {
		return nil, d.problem(1, 1, "more than %d values", maxNodes)
	}
	return root, nil
}

var jsonPlace = regexp.MustCompile(`^(?:hujson: )?line (\d+), column (\d+): (.*)$`)

// jsonError parses an error text of hujson: "hujson: line 2, column 5: parsing value: …".
func jsonError(text string) (line, column int, message string) {
	m := jsonPlace.FindStringSubmatch(text)
	if m == nil {
		return 1, 1, strings.TrimPrefix(text, "hujson: ")
	}
	line, _ = strconv.Atoi(m[1])
	column, _ = strconv.Atoi(m[2])
	return line, column, m[3]
}

type jsonReader struct {
	*document
	places *places
}

// value converts a value; nil if the document has too many.
func (j *jsonReader) value(v *hujson.Value) *node {
	if !j.count() {
		return nil
	}
	n := &node{}
	n.line, n.column = j.places.position(v.StartOffset)
	switch v := v.Value.(type) {
	case hujson.Literal:
		n.kind, n.text = literal(v)
	case *hujson.Array:
		n.kind = list
		for i := range v.Elements {
			item := j.value(&v.Elements[i])
			if item == nil {
				return nil
			}
			n.items = append(n.items, item)
		}
	case *hujson.Object:
		n.kind = object
		for i := range v.Members {
			m := &v.Members[i]
			line, column := j.places.position(m.Name.StartOffset)
			value := j.value(&m.Value)
			if value == nil {
				return nil
			}
			name := ""
			if l, ok := m.Name.Value.(hujson.Literal); ok {
				name = l.String()
			}
			n.members = append(n.members, member{name, value, line, column})
		}
	}
	return n
}

func literal(l hujson.Literal) (kind, string) {
	switch l.Kind() {
	case '"':
		return text, l.String()
	case '0':
		return number, string(l)
	case 't', 'f':
		return boolean, string(l)
	}
	return null, ""
}
