package editor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/script/check"
)

// This part of the package is the language server of scripts: problems as the user types, completion of
// tools, arguments and fields, hover, definition, formatting, fixes and renaming. It speaks the
// Language Server Protocol over a pair of streams.

// LSPOptions are those of a server.
type LSPOptions struct {
	Config  string // the configuration of all documents; "": the nearest vmcp.yaml above each
	Lock    string // the lock file; "": that of the configuration
	Version string
	Log     func(message string)
}

// server is a session with one editor. The goroutine of Run owns all of its state and needs no lock: it handles one
// message or one result of a check at a time, and requests are answered in the order they came. Two other
// goroutines send to it: read passes on the messages of the editor, and check runs the one check under way.
//
// Every change of a document marks its project dirty. After a notification, next starts the check of the first dirty
// project, on a copy of the texts as they are then; further changes wait in dirty until it has finished.
// Its results replace those of the project, unless that was forgotten meanwhile, and publish sends the diagnostics of
// all projects. Requests use the results of the last check, with the text as it is now.
//
// Before initialize and after shutdown every other request gets an error. exit ends Run, and so does the end of the
// input; either is an error without a shutdown request before it. Run waits for the check under way.
type server struct {
	o    LSPOptions
	out  *writer
	docs map[string]*doc     // by path
	all  map[string]*project // by the path of a configuration, or of a script without one

	checking *project // nil: none
	dirty    []*project
	results  chan checked

	shown       map[string]bool // files that the editor shows problems of
	initialized bool
	shutdown    bool
}

// doc is an open document.
type doc struct {
	uri     string
	path    string
	version int
	text    *text
	project *project // nil: neither a script nor a configuration

	repaired repair
}

// incoming is a message that was read, or the error that ended the reading.
type incoming struct {
	content []byte
	err     error
}

// errNoShutdown is returned when the editor ends the session without a shutdown request.
var errNoShutdown = errors.New("the editor closed the connection without a shutdown request")

// RunLSP serves an editor until the session ends. The error is nil after shutdown, and when ctx ends.
func RunLSP(ctx context.Context, in io.Reader, out io.Writer, o LSPOptions) error {
	if o.Config != "" {
		var err error
		if o.Config, err = filepath.Abs(o.Config); err != nil {
			return err
		}
	}
	s := &server{o: o, out: &writer{w: out}, docs: map[string]*doc{}, all: map[string]*project{}, results: make(chan checked, 1), shown: map[string]bool{}}
	ctx, stop := context.WithCancel(ctx)
	messages := make(chan incoming)
	go read(ctx, in, messages)
	defer func() {
		stop()
		if s.checking != nil {
			<-s.results
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-messages:
			if m.err != nil {
				return s.ended(m.err)
			}
			if exit, err := s.message(m.content); exit || err != nil {
				return err
			}
		case r := <-s.results:
			if err := s.finished(r); err != nil {
				return err
			}
		}
	}
}

// read reads messages until the stream ends. A read that blocks is not interrupted by ctx: it ends with the stream or the process.
func read(ctx context.Context, in io.Reader, to chan<- incoming) {
	r := bufio.NewReader(in)
	for {
		content, err := readMessage(r)
		select {
		case to <- incoming{content, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *server) ended(err error) error {
	if errors.Is(err, io.EOF) && s.shutdown {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errNoShutdown
	}
	return err
}

// message handles one message; exit reports whether it was the notification exit.
func (s *server) message(content []byte) (exit bool, err error) {
	var m message
	if err := json.Unmarshal(content, &m); err != nil {
		return false, s.out.write(message{ID: json.RawMessage("null"), Error: &rpcError{codeParse, "a message is not JSON: " + err.Error()}})
	}
	if m.Method == "exit" {
		if !s.shutdown {
			return true, errNoShutdown
		}
		return true, nil
	}
	if m.Method == "" {
		return false, nil // a response; this server sends no requests
	}
	result, err := s.safely(m)
	if m.ID == nil {
		if err != nil {
			s.o.Log(m.Method + ": " + err.Error())
		}
		return false, s.next()
	}
	answer := message{ID: m.ID, Result: result}
	if err != nil {
		answer.Result, answer.Error = nil, &rpcError{codeInternal, err.Error()}
		errors.As(err, &answer.Error)
	} else if result == nil {
		answer.Result = json.RawMessage("null")
	}
	return false, s.out.write(answer)
}

// safely handles a message, and turns a panic into an error of that request.
func (s *server) safely(m message) (result any, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.o.Log(fmt.Sprintf("%s: panic: %v\n%s", m.Method, v, debug.Stack()))
			err = &rpcError{codeInternal, fmt.Sprintf("%s: a mistake of vmcp lsp: %v", m.Method, v)}
		}
	}()
	return s.handle(m)
}

func (s *server) handle(m message) (any, error) {
	switch {
	case m.Method == "initialize":
		s.initialized = true
		return s.capabilities(), nil
	case !s.initialized:
		return nil, &rpcError{codeNotInitialized, "the first request is initialize"}
	case s.shutdown:
		return nil, &rpcError{codeInvalidRequest, "shutdown was requested"}
	}
	switch m.Method {
	case "shutdown":
		s.shutdown = true
	case "textDocument/didOpen":
		return nil, decode(m.Params, s.opened)
	case "textDocument/didChange":
		return nil, decode(m.Params, s.changed)
	case "textDocument/didClose":
		return nil, decode(m.Params, s.closed)
	case "textDocument/didSave", "workspace/didChangeWatchedFiles":
		for _, p := range s.all {
			s.mark(p)
		}
	case "textDocument/completion":
		return at(s, m.Params, s.complete)
	case "textDocument/hover":
		return at(s, m.Params, s.hover)
	case "textDocument/definition":
		return at(s, m.Params, s.definition)
	case "textDocument/documentSymbol":
		return at(s, m.Params, s.symbols)
	case "textDocument/prepareRename":
		return at(s, m.Params, s.prepareRename)
	case "textDocument/rename":
		return at(s, m.Params, s.rename)
	case "textDocument/formatting":
		return at(s, m.Params, s.format)
	case "textDocument/codeAction":
		return s.actions(m.Params)
	case "initialized", "$/cancelRequest", "$/setTrace", "workspace/didChangeConfiguration", "textDocument/willSave":
	default:
		if m.ID == nil {
			return nil, nil // a notification that is not supported
		}
		return nil, &rpcError{codeNoMethod, "no method " + m.Method}
	}
	return nil, nil
}

func (s *server) capabilities() any {
	return map[string]any{
		"serverInfo": map[string]string{"name": "vmcp", "version": s.o.Version},
		"capabilities": map[string]any{
			"positionEncoding":           "utf-16",
			"textDocumentSync":           map[string]any{"openClose": true, "change": 2, "save": map[string]any{}},
			"completionProvider":         map[string]any{"triggerCharacters": []string{".", `"`, "'", "["}},
			"hoverProvider":              true,
			"definitionProvider":         true,
			"documentSymbolProvider":     true,
			"documentFormattingProvider": true,
			"codeActionProvider":         map[string]any{"codeActionKinds": []string{"quickfix"}},
			"renameProvider":             map[string]any{"prepareProvider": true},
		},
	}
}

func decode[P any](params json.RawMessage, f func(P) error) error {
	var p P
	if err := json.Unmarshal(params, &p); err != nil {
		return &rpcError{codeInvalidParams, err.Error()}
	}
	return f(p)
}

// at decodes the params of a request about a position, and calls f with its document, which has to be open.
func at[R any](s *server, params json.RawMessage, f func(*doc, placeParams) (R, error)) (any, error) {
	var p placeParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, &rpcError{codeInvalidParams, err.Error()}
	}
	d := s.docs[pathOf(p.TextDocument.URI)]
	if d == nil {
		return nil, &rpcError{codeInvalidParams, p.TextDocument.URI + " is not open"}
	}
	return f(d, p)
}

func (s *server) opened(p openParams) error {
	path := pathOf(p.TextDocument.URI)
	if path == "" {
		return refuse("%s: want the URI of a file", p.TextDocument.URI)
	}
	d := &doc{uri: p.TextDocument.URI, path: path, version: p.TextDocument.Version, text: newText(p.TextDocument.Text)}
	s.docs[path] = d
	d.project = s.projectOf(d)
	s.mark(d.project)
	return nil
}

func (s *server) changed(p changeParams) error {
	d := s.docs[pathOf(p.TextDocument.URI)]
	if d == nil {
		return refuse("%s is not open", p.TextDocument.URI)
	}
	d.version = p.TextDocument.Version
	for _, c := range p.ContentChanges {
		if c.Range == nil {
			d.text = newText(c.Text)
		} else {
			d.text = d.text.changed(*c.Range, c.Text)
		}
	}
	if d.project == nil {
		d.project = s.projectOf(d)
	}
	s.mark(d.project)
	return nil
}

func (s *server) closed(p placeParams) error {
	d := s.docs[pathOf(p.TextDocument.URI)]
	if d == nil {
		return nil
	}
	delete(s.docs, d.path)
	s.mark(d.project)
	if d.project != nil && !s.needed(d.project) {
		s.forget(d.project)
	}
	return nil
}

// needed reports whether a document of a project is open.
func (s *server) needed(p *project) bool {
	for _, d := range s.docs {
		if d.project == p {
			return true
		}
	}
	return false
}

// forget removes a project without open documents, and its diagnostics.
func (s *server) forget(p *project) {
	delete(s.all, p.config+p.script)
	s.dirty = slices.DeleteFunc(s.dirty, func(q *project) bool { return q == p })
	p.problems = nil
	if err := s.publish(); err != nil {
		s.o.Log(err.Error())
	}
}

// configurationText matches the fields by which a YAML file of another name is recognized as a configuration.
var configurationText = regexp.MustCompile(`(?m)^(backends|scriptedTools|compositeTools|scripts):`)

// projectOf finds or makes the project of a document; nil for what is neither a script nor a configuration.
func (s *server) projectOf(d *doc) *project {
	p := &project{script: d.path}
	switch name := configOf(d.path); {
	case isYAML(d.path) && filepath.Base(d.path) != configName && d.path != s.o.Config && !configurationText.MatchString(d.text.src):
		return nil
	case isYAML(d.path):
		p = &project{config: d.path}
	case filepath.Ext(d.path) != ".star":
		return nil
	case s.o.Config != "":
		p = &project{config: s.o.Config}
	case name != "":
		p = &project{config: name}
	}
	if known := s.all[p.config+p.script]; known != nil {
		return known
	}
	s.all[p.config+p.script] = p
	return p
}

// mark marks a project to be checked again.
func (s *server) mark(p *project) {
	if p != nil && !slices.Contains(s.dirty, p) {
		s.dirty = append(s.dirty, p)
	}
}

// next starts the check of the next dirty project, unless one is under way.
func (s *server) next() error {
	if s.checking != nil || len(s.dirty) == 0 {
		return nil
	}
	p := s.dirty[0]
	s.dirty = slices.Delete(s.dirty, 0, 1)
	unsaved, texts := catalog.Overlay{}, map[string]version{}
	for _, d := range s.docs {
		unsaved[d.path] = []byte(d.text.src)
		if d.project == p {
			texts[d.path] = version{d.version, d.text}
		}
	}
	s.checking = p
	go s.check(p, unsaved, texts, p.program)
	return nil
}

// check runs one check in its own goroutine, and sends the result to Run, also after a panic.
func (s *server) check(p *project, unsaved catalog.Overlay, texts map[string]version, last *check.Program) {
	result := checked{project: p, program: last}
	defer func() {
		if v := recover(); v != nil {
			s.o.Log(fmt.Sprintf("check: panic: %v\n%s", v, debug.Stack()))
		}
		result.texts = texts
		s.results <- result
	}()
	result = p.check(unsaved, s.o.Lock, last)
}

// finished stores the result of a check and publishes the diagnostics.
func (s *server) finished(r checked) error {
	s.checking = nil
	if s.all[r.project.config+r.project.script] == r.project {
		r.project.program, r.project.problems, r.project.texts = r.program, r.problems, r.texts
		if err := s.publish(); err != nil {
			return err
		}
	}
	return s.next()
}

// publish sends the diagnostics of all files that have problems, and empty lists for files that had some before.
func (s *server) publish() error {
	found := map[string]diag.Problems{}
	for _, p := range s.all {
		for _, one := range p.problems {
			if path, err := filepath.Abs(one.File); err == nil && one.File != "" {
				found[path] = append(found[path], one)
			}
		}
	}
	for path := range s.shown {
		if _, ok := found[path]; !ok {
			found[path] = nil
		}
	}
	for path, d := range s.docs {
		if _, ok := found[path]; !ok && d.project != nil && d.project.texts[path].text != nil {
			found[path] = nil
		}
	}
	for path, problems := range found {
		p := publishParams{URI: s.uri(path), Diagnostics: s.diagnostics(path, problems.OnePerPlace())}
		if v := s.checkedText(path); v.text != nil {
			p.Version = &v.number
		}
		s.shown[path] = true
		if len(problems) == 0 {
			delete(s.shown, path)
		}
		raw, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if err := s.out.write(message{Method: "textDocument/publishDiagnostics", Params: raw}); err != nil {
			return err
		}
	}
	return nil
}

// checkedText is the version of an open document that the last check has seen.
func (s *server) checkedText(path string) (v version) {
	if d := s.docs[path]; d != nil && d.project != nil {
		v = d.project.texts[path]
	}
	return v
}

// uri is the URI of a file, in the editor's spelling if the file is open.
func (s *server) uri(path string) string {
	if d := s.docs[path]; d != nil {
		return d.uri
	}
	return uriOf(path)
}
