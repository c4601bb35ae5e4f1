package audit

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Types of events.
const (
	ToolCall      = "mcp_tool_call"
	ResourceRead  = "mcp_resource_read"
	PromptGet     = "mcp_prompt_get"
	ToolsList     = "mcp_tools_list"
	ResourcesList = "mcp_resources_list"
	PromptsList   = "mcp_prompts_list"
	Initialize    = "mcp_initialize"
	Completion    = "mcp_completion"
	Ping          = "mcp_ping"
	Logging       = "mcp_logging"
	Notification  = "mcp_notification"
	Request       = "mcp_request"  // any other
	HTTPRequest   = "http_request" // refused before its body was read

	StepCompleted = "vmcp_workflow_step_completed"
	StepFailed    = "vmcp_workflow_step_failed"
	ConfigApplied = "vmcp_config_applied"
	PinViolation  = "vmcp_pin_violation"
)

// Types has all types of events.
var Types = []string{
	ToolCall, ResourceRead, PromptGet, ToolsList, ResourcesList, PromptsList, Initialize, Completion, Ping, Logging,
	Notification, Request, HTTPRequest, StepCompleted, StepFailed, ConfigApplied, PinViolation,
}

// Outcomes of events.
const (
	Started          = "started" // about to be executed; a second line has the outcome
	Success          = "success"
	Failure          = "failure"           // no result: the backend failed, a timeout, or the caller cancelled
	Denied           = "denied"            // not allowed
	Error            = "error"             // invalid request
	ApplicationError = "application_error" // the tool returned an error
)

// Event is one line. Empty fields are omitted.
type Event struct {
	ID       string // NewID by default
	Type     string
	At       time.Time
	Outcome  string
	Source   Source
	Subjects Subjects
	Target   Target
	Extra    Extra
	Data     json.RawMessage // valid JSON; nil is none
}

// Source is where the request came from.
type Source struct {
	Type      string // network or local
	Value     string // an address
	UserAgent string
}

// Subjects are the principal and the client.
type Subjects struct {
	UserID, User, Issuer      string
	ClientName, ClientVersion string
}

// Target is the operation and its object.
type Target struct {
	Endpoint, Method, Type string
	Name                   string // as requested
	Backend, Original      string // its backend, and its name there
}

// Extra is further facts.
type Extra struct {
	Duration          time.Duration
	Server            string // the endpoint, where the process has several
	Transport         string
	Session           string
	Decision, Policy  string
	Code              int // of an HTTP or JSON-RPC error
	BytesIn, BytesOut int64
	Run, Step, Parent string
	Reason            string
}

// NewID returns a random UUID (version 4).
func NewID() string {
	var out [36]byte
	const digits = "0123456789abcdef"
	a, b := rand.Uint64(), rand.Uint64()
	for i := range out {
		switch i {
		case 8, 13, 18, 23:
			out[i] = '-'
			continue
		}
		out[i] = digits[a&15]
		a >>= 4
		if i == 17 {
			a = b
		}
	}
	out[14], out[19] = '4', digits[8|b>>62]
	return string(out[:])
}

// line appends the event as a line.
func (e *Event) line(b []byte, component string) []byte {
	if e.ID == "" {
		e.ID = NewID()
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	b = append(b, `{"audit_id":`...)
	b = text(b, e.ID)
	b = append(b, `,"type":`...)
	b = text(b, e.Type)
	b = append(b, `,"logged_at":"`...)
	b = e.At.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","outcome":`...)
	b = text(b, e.Outcome)
	b = append(b, `,"component":`...)
	b = text(b, component)
	b = append(b, `,"source":`...)
	b = e.Source.append(b)
	b = append(b, `,"subjects":`...)
	b = e.Subjects.append(b)
	b = append(b, `,"target":`...)
	b = e.Target.append(b)
	b = append(b, `,"metadata":{"extra":`...)
	b = e.Extra.append(b)
	b = append(b, '}')
	if len(e.Data) > 0 {
		b = append(append(b, `,"data":`...), lineEnds.Replace(string(e.Data))...)
	}
	return append(b, '}', '\n')
}

func (s *Source) append(b []byte) []byte {
	o := object{append(b, '{')}
	o.text("type", s.Type)
	o.text("value", s.Value)
	if s.UserAgent != "" {
		o.name("extra")
		inner := object{append(o.b, '{')}
		inner.text("user_agent", s.UserAgent)
		o.b = append(inner.b, '}')
	}
	return append(o.b, '}')
}

func (s *Subjects) append(b []byte) []byte {
	o := object{append(b, '{')}
	o.text("user_id", s.UserID)
	o.text("user", s.User)
	o.text("issuer", s.Issuer)
	o.text("client_name", s.ClientName)
	o.text("client_version", s.ClientVersion)
	return append(o.b, '}')
}

func (t *Target) append(b []byte) []byte {
	o := object{append(b, '{')}
	o.text("endpoint", t.Endpoint)
	o.text("method", t.Method)
	o.text("type", t.Type)
	o.text("name", t.Name)
	o.text("backend", t.Backend)
	o.text("original", t.Original)
	return append(o.b, '}')
}

func (x *Extra) append(b []byte) []byte {
	o := object{append(b, '{')}
	if x.Duration > 0 {
		o.name("duration_ms")
		o.b = strconv.AppendFloat(o.b, float64(x.Duration.Microseconds())/1000, 'f', -1, 64)
	}
	o.text("server", x.Server)
	o.text("transport", x.Transport)
	o.text("session", x.Session)
	o.text("decision", x.Decision)
	o.text("policy", x.Policy)
	o.number("code", int64(x.Code))
	o.number("bytes_in", x.BytesIn)
	o.number("bytes_out", x.BytesOut)
	o.text("run", x.Run)
	o.text("step", x.Step)
	o.text("parent", x.Parent)
	o.text("reason", x.Reason)
	return append(o.b, '}')
}

// object is a JSON object that is being encoded.
type object struct{ b []byte }

func (o *object) name(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

func (o *object) text(name, value string) {
	if value != "" {
		o.name(name)
		o.b = text(o.b, value)
	}
}

func (o *object) number(name string, value int64) {
	if value != 0 {
		o.name(name)
		o.b = strconv.AppendInt(o.b, value, 10)
	}
}

// lineEnds escapes the characters that JSON allows in a string, but that some readers treat as line
// ends.
var lineEnds = strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

// text appends a JSON string, without any character that ends a line.
func text(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				b = append(b, `\ufffd`...)
			case r == '\u0085', r == '\u2028', r == '\u2029':
				b = append(b, lineEnds.Replace(s[i:i+n])...)
			default:
				b = append(b, s[i:i+n]...)
			}
			i += n
			continue
		}
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c == 0x7f:
			const digits = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
		i++
	}
	return append(b, '"')
}
