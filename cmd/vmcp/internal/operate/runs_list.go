package operate

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// summary is the JSON of a run in a list.
type summary struct {
	ID        string        `json:"id"`
	Tool      string        `json:"tool"`
	State     durable.State `json:"state"`
	Principal string        `json:"principal"`
	Created   time.Time     `json:"created"`
	Updated   time.Time     `json:"updated"`
	Wake      time.Time     `json:"wake,omitzero"`
	Questions int           `json:"questions"`
	Doubts    int           `json:"doubts"`
	Entries   int           `json:"entries"`
	Error     string        `json:"error"`
}

// page is the JSON of the command.
type page struct {
	Runs []summary `json:"runs"`
	Next string    `json:"next"`
}

func list(e RunsEnv, file *string) *cobra.Command {
	var f durable.Filter
	var states []string
	var since string
	c := &cobra.Command{
		Use:     "list",
		Short:   "list runs, the last changed first",
		Long:    `List prints kept runs, the last changed first. As JSON next is the cursor for --after, "" on the last page.` + cli.Of(page{}),
		Example: "  vmcp runs list --state waiting,doubt\n  vmcp runs list --tool onboard --since 7d -o json",
		Args:    cobra.NoArgs,
	}
	output := e.Output(c)
	fl := c.Flags()
	fl.StringVar(&f.SealedBy, "sealed-by", "", "runs with data encrypted with the key of this id")
	fl.StringSliceVar(&states, "state", nil, "runs in one of these states")
	fl.StringVar(&f.Tool, "tool", "", "runs of this tool")
	fl.StringVar(&since, "since", "", "runs that were changed since then: a duration such as 7d, or a time")
	fl.IntVar(&f.Limit, "limit", 100, "the maximum number of runs")
	fl.StringVar(&f.After, "after", "", "continue after this cursor: next of the previous page")
	completeStates(c, durable.States)
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if f.Limit < 1 || f.Limit > 10_000 {
			return cli.Error(fmt.Sprintf("--limit: want 1 to 10000, have %d", f.Limit))
		}
		if f.States, err = parseStates(states); err != nil {
			return err
		}
		if f.Since, err = ago("--since", since); err != nil {
			return err
		}
		return e.with(c.Context(), *file, func(_ *config.Config, s durable.Store) error {
			found, next, err := s.List(c.Context(), f)
			if err != nil {
				return err
			}
			return e.showList(found, next, *output == "json")
		})
	}
	return c
}

func (e RunsEnv) showList(found []durable.Summary, next string, asJSON bool) error {
	list := []summary{}
	for _, r := range found {
		list = append(list, summary{r.ID, r.Tool, r.State, r.Principal, r.Created.UTC(), r.Updated.UTC(), utc(r.Wake), r.Questions, r.Doubts, r.Entries, r.Error})
	}
	if asJSON {
		return e.JSON(page{list, next})
	}
	if len(list) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tTOOL\tPRINCIPAL\tUPDATED\tABOUT")
	for _, r := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.State, e.Cell(r.Tool), e.Cell(r.Principal), clock(r.Updated), e.Cell(about(r)))
	}
	if next != "" {
		fmt.Fprintf(w, "more: --after %s\n", next)
	}
	return w.Flush()
}

// about is the last column of a run: its calls in doubt, open questions, wake time or error.
func about(r summary) string {
	switch {
	case r.Doubts > 0:
		return fmt.Sprintf("%d in doubt", r.Doubts)
	case r.State == durable.Waiting:
		return fmt.Sprintf("%d open", r.Questions)
	case r.State == durable.Sleeping && !r.Wake.IsZero():
		return "until " + clock(r.Wake)
	}
	return r.Error
}

func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// utc is a time in UTC; the zero time stays zero.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}
