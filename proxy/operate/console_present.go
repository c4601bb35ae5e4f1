package operate

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"

	"github.com/vmcp-dev/vmcp/proxy/status"
)

// present is the current state, for the stream of events. What changes constantly, such as counters, is not in it.
func (c *Console) present() []event {
	s := c.status()
	var all []event
	add := func(kind, key string, document, mark any) {
		data, err := jsonscan.Readable(document)
		if err != nil {
			panic(err) // a bug: it consists of texts and numbers
		}
		seen, _ := json.Marshal(mark) // cannot fail, as for document
		all = append(all, event{Kind: kind, Key: key, Data: c.o.Admin.Hide(data), Mark: seen})
	}
	for _, b := range s.Backends {
		add("backend", b.Name, b, []any{b.State, b.Since, b.Error, b.Revision, b.Tools, b.Prompts, b.Resources, b.Restarts})
	}
	version := c.o.Version()
	catalog := struct {
		Version  uint64       `json:"version"` // number of the catalog in this process
		Tools    status.Tools `json:"tools"`
		Problems int          `json:"problems"`
	}{version, s.Tools, len(s.Problems)}
	add("catalog", "", catalog, catalog)
	state := struct {
		status.Config
		Ready    bool `json:"ready"`
		Draining bool `json:"draining"`
	}{s.Config, s.Ready, s.Draining}
	add("config", "", state, state)
	for _, r := range c.o.Runs.Here() {
		add("run", r.ID, r, []any{r.State, r.StepCount, r.Open, r.Error, r.Step == nil || r.Step.Running})
	}
	return all
}

// status is the status document, with secrets replaced.
func (c *Console) status() status.Status { return hidden(c, c.o.Admin.Status()) }

func (c *Console) tools() []status.ToolRow { return hidden(c, c.o.Admin.Tools()) }

func (c *Console) tool(name string) (status.Tool, bool) {
	t, ok := c.o.Admin.Tool(name)
	return hidden(c, t), ok
}

// hidden is a document with the secrets of the configuration replaced.
func hidden[T any](c *Console, document T) (clean T) {
	text, err := jsonscan.Readable(document)
	if err != nil {
		return document // a time that JSON cannot have; it contains no secret
	}
	without := c.o.Admin.Hide(text)
	if string(without) == string(text) || json.Unmarshal(without, &clean) != nil {
		return document
	}
	return clean
}
