package clients

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ofEditor are VS Code's predefined variables that have no meaning outside an editor.
var ofEditor = []string{
	"file", "fileBasename", "fileBasenameNoExtension", "fileDirname", "fileDirnameBasename", "fileExtname", "fileWorkspaceFolder",
	"relativeFile", "relativeFileDirname", "lineNumber", "columnNumber", "selectedText", "execPath", "defaultBuildTask",
	"extensionInstallFolder", "workspaceRoot",
}

// readInputs reads VS Code's input variables.
func (r *reader) readInputs() {
	r.inputs = map[string]*node{}
	if n := r.root.get("inputs"); n != nil && n.kind == list {
		for _, input := range n.items {
			if id := input.get("id"); id != nil && id.kind == text {
				r.inputs[id.text] = input
			}
		}
	}
}

// escape escapes text that contains no variables for vmcp.yaml.
func escape(s string) string { return strings.ReplaceAll(s, "${", "$${") }

// expand translates the variables of a text into the syntax of vmcp.yaml; at is the field, for
// messages. If that is not possible, the server is skipped.
func (t *translation) expand(at, s string) string { return t.expandText(at, s, false) }

// expandEnv is expand for env and headers, where Gemini also has $X and %X%.
func (t *translation) expandEnv(at, s string) string { return t.expandText(at, s, t.isGemini()) }

func (t *translation) expandText(at, s string, bare bool) string {
	var b strings.Builder
	plain := func(text string) {
		if bare {
			text = t.bareVariables(text)
		} else {
			text = escape(text)
		}
		b.WriteString(text)
	}
	for {
		begin, open := nextVariable(s, t.shape.key == "mcp")
		if begin < 0 {
			plain(s)
			return b.String()
		}
		end := strings.IndexByte(s[begin:], '}')
		if end < 0 {
			plain(s)
			return b.String()
		}
		plain(s[:begin])
		value, ok := t.one(at, s[begin:begin+end+1], s[begin+open:begin+end])
		if !ok {
			return ""
		}
		if strings.HasPrefix(value, "${") && strings.HasSuffix(b.String(), "$") {
			t.skip("%s: a $ right before the variable %s cannot be said here", at, s[begin:begin+end+1])
			return ""
		}
		b.WriteString(value)
		s = s[begin+end+1:]
	}
}

// nextVariable finds the next ${, and OpenCode's {env: or {file:. open is the length of the opening token.
func nextVariable(s string, braces bool) (begin, open int) {
	begin, open = strings.Index(s, "${"), 2
	if !braces {
		return begin, open
	}
	for _, word := range []string{"{env:", "{file:"} {
		if i := strings.Index(s, word); i >= 0 && (begin < 0 || i < begin) {
			begin, open = i, 1
		}
	}
	return begin, open
}

// one translates the text between the braces of a variable.
func (t *translation) one(at, whole, inner string) (string, bool) {
	if env, ok := strings.CutPrefix(inner, "env:"); ok {
		inner = env
	}
	name, fallback, has := strings.Cut(inner, ":-")
	switch id, isInput := strings.CutPrefix(inner, "input:"); {
	case isInput && id != "":
		return t.input(whole, id), true
	case inner == "workspaceFolder":
		return t.ofFolder(at, whole, t.Workspace)
	case inner == "workspaceFolderBasename":
		return t.ofFolder(at, whole, filepath.Base(t.Workspace))
	case inner == "userHome":
		return t.ofFolder(at, whole, t.Home)
	case inner == "pathSeparator" || inner == "/":
		return string(filepath.Separator), true
	case inner == whole[2:len(whole)-1] && slices.Contains(ofEditor, inner):
		t.skip("%s: %s is what the editor knows of the file that is open or of itself, which there is not here; write the value, or ${env:NAME} for a variable of the environment", at, whole)
		return "", false
	case envName.MatchString(name) && has && !strings.Contains(fallback, "${"):
		return t.variable(name, whole, &fallback), true
	case envName.MatchString(name) && !has:
		return t.variable(name, whole, nil), true
	}
	t.skip("%s: %s is no variable that is known here; want ${NAME}, ${NAME:-default}, ${input:ID} or ${workspaceFolder}", at, whole)
	return "", false
}

func (t *translation) ofFolder(at, whole, folder string) (string, bool) {
	if folder == "" || folder == "." {
		t.skip("%s: it is not known which folder %s is", at, whole)
		return "", false
	}
	return escape(folder), true
}

// input translates an input variable of VS Code to an environment variable named like its id.
func (t *translation) input(whole, id string) string {
	name := VariableName(id)
	input := t.inputs[id]
	var fallback *string
	if n := input.get("default"); n != nil && n.kind == text && !strings.ContainsAny(n.text, "}") {
		fallback = &n.text
	}
	reference := t.variable(name, whole, fallback)
	v := &t.used[len(t.used)-1]
	if n := input.get("password"); n != nil && n.text == "true" {
		v.Secret = true
	}
	if n := input.get("description"); n != nil && n.kind == text {
		v.Description = n.text
	}
	return reference
}

// VariableName converts a text to the name of an environment variable: upper case, characters other
// than letters and digits become underscores, and the first one is not a digit.
func VariableName(s string) string {
	name := strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z':
			return c - 'a' + 'A'
		case 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			return c
		}
		return '_'
	}, s)
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// variable returns a reference in the syntax of vmcp.yaml, and records that the server needs the variable.
func (t *translation) variable(name, from string, fallback *string) string {
	if !envName.MatchString(name) {
		t.skip("%q is no name of a variable", name)
		return ""
	}
	v := Variable{Name: name, From: from}
	if from == "" {
		v.From = name
	}
	reference := "${" + name + "}"
	if fallback != nil {
		v.Default, v.HasDefault = *fallback, true
		reference = "${" + name + ":-" + *fallback + "}"
	}
	t.used = append(t.used, v)
	return reference
}

// keepVariables adds the variables that the server needs to the file's list.
func (t *translation) keepVariables() {
	for _, v := range t.used {
		known, ok := t.variables[v.Name]
		if !ok {
			known = &v
			t.variables[v.Name] = known
		}
		known.Secret = known.Secret || v.Secret
		if known.Description == "" {
			known.Description = v.Description
		}
		if !slices.Contains(known.UsedBy, t.server.Name) {
			known.UsedBy = append(known.UsedBy, t.server.Name)
		}
	}
}

// Gemini's variables without braces: $X as in a shell, %X% as in cmd.exe.
var bareVariable = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)|%([A-Za-z_][A-Za-z0-9_]*)%`)

func (t *translation) bareVariables(s string) string {
	var b strings.Builder
	last := 0
	for _, at := range bareVariable.FindAllStringSubmatchIndex(s, -1) {
		b.WriteString(escape(s[last:at[0]]))
		whole := s[at[0]:at[1]]
		b.WriteString(t.variable(strings.Trim(whole, "$%"), whole, nil))
		last = at[1]
	}
	return b.String() + escape(s[last:])
}

// folder is expand for the path of a file or a program, in which ~/ is the home folder.
func (t *translation) folder(at, name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok && t.Home != "" {
		return escape(t.Home) + "/" + t.expand(at, rest)
	}
	return t.expand(at, name)
}
