package author

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// FormatOptions say what is done and how it is reported.
type FormatOptions struct {
	Check  bool   // write nothing
	JSON   bool   // results for machines
	Config string // the configuration that is formatted, with the scripts that it names, when no path is given
	In     io.Reader
	Out    io.Writer

	Shown    func(text string) string // makes a text safe for Out
	Tell     func(message string)     // for a message to a person
	Report   func(error)
	Problems func(p diag.Problems, asJSON bool) error
	Print    func(v any) error // as JSON
}

// ErrReported is returned for files that were not formatted, and for differences with Check; both
// have been reported.
var ErrReported = errors.New("reported already")

// standardInput is the name of standard input in messages.
const standardInput = "<stdin>"

// FormatterRun formats paths: files and folders in place, "-" from In to Out.
func FormatterRun(ctx context.Context, paths []string, o FormatOptions) error {
	if len(paths) == 1 && paths[0] == "-" {
		return o.input()
	}
	var names []string
	var err error
	if len(paths) == 0 {
		names, err = named(o.Config)
	} else {
		names, err = formatFiles(paths)
	}
	if err != nil {
		return err
	}
	var results []result
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		results = append(results, formatFile(name, o.Check))
	}
	return o.show(results)
}

// input formats In to Out. Nothing is written when the text cannot be formatted: an editor
// would take it for the result.
func (o FormatOptions) input() error {
	data, err := io.ReadAll(io.LimitReader(o.In, config.MaxFile+1))
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	r, out := formatText(standardInput, data, o.Check)
	if o.Check || o.JSON {
		return o.show([]result{r})
	}
	if len(r.Problems) > 0 {
		return r.Problems
	}
	if r.Err != nil {
		return r.Err
	}
	return o.write(string(out))
}

func (o FormatOptions) write(text string) error {
	if _, err := io.WriteString(o.Out, text); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

// show prints the results.
func (o FormatOptions) show(results []result) error {
	problems := diag.Problems{}
	wrong := false
	for _, r := range results {
		problems = append(problems, r.Problems...)
		wrong = wrong || len(r.Problems) > 0 || r.Err != nil || o.Check && r.Changed
		if r.Err != nil {
			o.Report(r.Err)
		}
		if o.JSON {
			continue
		}
		if r.Changed && !o.Check {
			o.Tell(r.File + ": formatted")
		}
		if err := o.write(o.Shown(r.Diff)); err != nil {
			return err
		}
	}
	err := o.finish(results, problems)
	if err == nil && wrong {
		err = ErrReported
	}
	return err
}

// report is the JSON of the command.
type report struct {
	Files    []result      `json:"files"`
	Problems diag.Problems `json:"problems"`
}

// FormatForm is the end of the help, which describes that JSON.
var FormatForm = cli.Of(report{})

func (o FormatOptions) finish(results []result, problems diag.Problems) error {
	if !o.JSON {
		return o.Problems(problems, false)
	}
	return o.Print(report{append([]result{}, results...), problems})
}
