package operate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// maxShown bounds a text in a line, in characters.
const maxShown = 100

// shown is the JSON of show.
type shown struct {
	ID        string          `json:"id"`
	Tool      string          `json:"tool"`
	State     durable.State   `json:"state"`
	Principal string          `json:"principal"`
	Created   time.Time       `json:"created"`
	Updated   time.Time       `json:"updated"`
	Wake      time.Time       `json:"wake,omitzero"`
	Owner     string          `json:"owner"`
	Program   string          `json:"program"`
	Engine    int             `json:"engine"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     string          `json:"error"`
	Entries   []entry         `json:"entries"`
	Questions []question      `json:"questions"`
	Doubts    []doubt         `json:"doubts"`
}

type entry struct {
	Key        string          `json:"key"`
	Kind       string          `json:"kind"`
	Name       string          `json:"name"`
	State      string          `json:"state"`
	Repeatable bool            `json:"repeatable"`
	Attempt    int             `json:"attempt"`
	Began      time.Time       `json:"began,omitzero"`
	Ended      time.Time       `json:"ended,omitzero"`
	Until      time.Time       `json:"until,omitzero"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Failure    *script.Failure `json:"failure,omitempty"`
}

type question struct {
	Key      string          `json:"key"`
	Method   string          `json:"method"`
	Params   json.RawMessage `json:"params,omitempty"`
	Deadline time.Time       `json:"deadline,omitzero"`
}

type doubt struct {
	Key       string          `json:"key"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Began     time.Time       `json:"began,omitzero"`
}

// of is a run with its journal, as JSON.
func of(r durable.Run, journal []script.Entry) shown {
	s := shown{
		ID: r.ID, Tool: r.Tool, State: r.State, Principal: r.Principal, Created: utc(r.Created), Updated: utc(r.Updated), Wake: utc(r.Wake), Owner: r.Owner,
		Program: r.Program.Hash, Engine: r.Program.Engine, Arguments: valid(r.Args), Result: valid(r.Result), Error: r.Error,
		Entries: []entry{}, Questions: []question{}, Doubts: []doubt{},
	}
	for _, e := range journal {
		inDoubt := slices.Contains(r.Doubts, e.Key)
		s.Entries = append(s.Entries, entry{
			Key: e.Key, Kind: e.Kind, Name: e.Name, State: stateOf(e, inDoubt), Repeatable: e.Repeatable, Attempt: e.Attempt,
			Began: utc(e.Began), Ended: utc(e.Ended), Until: utc(e.Until), Arguments: valid(e.Args), Result: valid(e.Result), Failure: e.Failure,
		})
		if inDoubt {
			s.Doubts = append(s.Doubts, doubt{e.Key, e.Name, valid(e.Args), utc(e.Began)})
		}
	}
	for _, q := range r.Questions {
		if q.Answer == nil && !r.State.Final() {
			s.Questions = append(s.Questions, question{q.Key, q.Method, valid(q.Params), utc(q.Deadline)})
		}
	}
	return s
}

// valid is raw, or nil if it is not JSON: what is printed can always be parsed.
func valid(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || !json.Valid(raw) {
		return nil
	}
	return raw
}

func stateOf(e script.Entry, inDoubt bool) string {
	switch {
	case inDoubt:
		return "doubt"
	case !e.Done:
		return "begun"
	case e.Failure != nil:
		return "failed"
	}
	return "done"
}

func show(e RunsEnv, file *string) *cobra.Command {
	c := &cobra.Command{
		Use:     "show ID",
		Short:   "show a run: its effects, what it waits for, and the command to continue it",
		Long:    `Show prints a run: what it did, what it waits for, and the command that would help.` + cli.Of(shown{}),
		Example: "  vmcp runs show 4qk2v9m0s7c1d8x3n5b6t0h2ya",
		Args:    cobra.ExactArgs(1),
	}
	c.ValidArgsFunction = e.ids(file)
	output := e.Output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return e.with(c.Context(), *file, func(_ *config.Config, s durable.Store) error {
			r, journal, err := s.Get(c.Context(), args[0])
			if err != nil {
				return named(args[0], err)
			}
			if *output == "json" {
				return e.JSON(of(r, journal))
			}
			return e.timeline(of(r, journal))
		})
	}
	return c
}

// named names the run in an error.
func named(id string, err error) error {
	if strings.Contains(err.Error(), id) {
		return err
	}
	return fmt.Errorf("%s: %w", id, err)
}

// timeline prints a run as text.
func (e RunsEnv) timeline(s shown) error {
	fmt.Fprintf(e.Out, "%s  %s  %s", s.ID, e.Cell(s.Tool), s.State)
	if s.Principal != "" {
		fmt.Fprintf(e.Out, "  %s", e.Cell(s.Principal))
	}
	fmt.Fprintf(e.Out, "\nbegun %s\n", clock(s.Created))
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	for _, x := range s.Entries {
		fmt.Fprintf(w, "  +%s\t%s\t%s\t%s\t%s\t%s\n", since(s.Created, x), x.Key, e.Cell(strings.TrimSpace(x.Kind+" "+x.Name)), x.State, took(x), e.Cell(detail(x)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, q := range s.Questions {
		fmt.Fprintf(e.Out, "open question %s%s: %s\n", q.Key, by(q.Deadline), e.Cell(message(q)))
	}
	if s.Error != "" {
		fmt.Fprintln(e.Out, e.Text(s.Error))
	}
	if len(s.Result) > 0 {
		fmt.Fprintf(e.Out, "result %s\n", e.Cell(display.ClipLine(string(s.Result), maxShown)))
	}
	if help := helps(s); help != "" {
		fmt.Fprintln(e.Out, help)
	}
	return nil
}

// since is when an entry began, as the time since the run did.
func since(created time.Time, x entry) string {
	at := x.Began
	if at.IsZero() {
		at = x.Ended
	}
	if at.IsZero() {
		return "?"
	}
	return max(0, at.Sub(created)).Round(time.Millisecond).String()
}

func took(x entry) string {
	if x.Began.IsZero() || x.Ended.IsZero() {
		return ""
	}
	return x.Ended.Sub(x.Began).Round(time.Microsecond).String()
}

// detail is the last column of an entry: attempt, end of a sleep, arguments, failure.
func detail(x entry) string {
	var parts []string
	if x.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", x.Attempt))
	}
	if !x.Until.IsZero() && x.State == "begun" {
		parts = append(parts, "until "+clock(x.Until))
	}
	if len(x.Arguments) > 0 && x.Kind == "call" {
		parts = append(parts, display.ClipLine(string(x.Arguments), maxShown))
	}
	if x.Failure != nil {
		parts = append(parts, x.Failure.Kind+": "+display.ClipLine(x.Failure.Message, maxShown))
	}
	return strings.Join(parts, "  ")
}

func by(deadline time.Time) string {
	if deadline.IsZero() {
		return ""
	}
	return " until " + clock(deadline)
}

// message is the message of a question.
func message(q question) string {
	var params struct{ Message string }
	if json.Unmarshal(q.Params, &params) != nil || params.Message == "" {
		return q.Method
	}
	return display.ClipLine(params.Message, maxShown)
}

// helps is the command that continues the run; "" where none is needed.
func helps(s shown) string {
	switch {
	case s.State == durable.Doubt && len(s.Doubts) > 0:
		return fmt.Sprintf("vmcp runs resolve %s %s --done JSON | --failed TEXT | --repeat", s.ID, s.Doubts[0].Key)
	case len(s.Questions) > 0:
		return fmt.Sprintf("vmcp runs answer %s %s --action accept --content JSON", s.ID, s.Questions[0].Key)
	case s.State == durable.Paused:
		return "vmcp runs resume " + s.ID
	}
	return ""
}

// exported is a run as a fixture for tests of scripts.
type exported struct {
	ID        string            `json:"id"`
	Tool      string            `json:"tool"`
	Engine    int               `json:"engine"`
	Source    map[string]string `json:"source"`
	Limits    json.RawMessage   `json:"limits"`
	Arguments json.RawMessage   `json:"arguments"`
	Entries   []entry           `json:"entries"`
	Result    json.RawMessage   `json:"result,omitempty"`
}

func export(e RunsEnv, file *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "export ID",
		Short: "print a run as JSON: its script, arguments, journal and result",
		Long: `Export prints the arguments of a run and all its effects, as a fixture for tests of scripts. It
contains the arguments and results of all calls, not encrypted.` + cli.Of(exported{}),
		Example: "  vmcp runs export 4qk2v9m0s7c1d8x3n5b6t0h2ya > run.json",
		Args:    cobra.ExactArgs(1),
	}
	c.ValidArgsFunction = e.ids(file)
	e.Output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return e.with(c.Context(), *file, func(_ *config.Config, s durable.Store) error {
			r, journal, err := s.Get(c.Context(), args[0])
			if err != nil {
				return named(args[0], err)
			}
			return e.JSON(exported{r.ID, r.Tool, r.Program.Engine, r.Program.Files, limitsOf(r), valid(r.Args), of(r, journal).Entries, valid(r.Result)})
		})
	}
	return c
}

// limitsOf is the limits in the settings of a run.
func limitsOf(r durable.Run) json.RawMessage {
	var settings struct {
		Limits json.RawMessage `json:"limits"`
	}
	if json.Unmarshal(r.Limits, &settings) == nil && settings.Limits != nil {
		return settings.Limits
	}
	return valid(r.Limits)
}
