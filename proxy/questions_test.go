package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// A desk is a backend whose tool book asks before it acts, with sessions or stateless.
type desk struct {
	mu    sync.Mutex
	asked int
	done  []string // the answers that it did something for
}

func (d *desk) book(answer string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, answer)
	return answer
}

func (d *desk) counts() (asked int, done []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked, slices.Clone(d.done)
}

func (d *desk) ask() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
}

// sessions is the URL of one that sends a request during the call.
func (d *desk) sessions(t *testing.T) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
	mcp.AddTool(s, &mcp.Tool{Name: "book"}, func(ctx context.Context, r *mcp.CallToolRequest, in struct {
		What string `json:"what"`
	}) (*mcp.CallToolResult, map[string]string, error) {
		d.ask()
		a, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: in.What, RequestedSchema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}}}`)})
		if err != nil {
			return nil, nil, err
		}
		return nil, map[string]string{"booked": d.book(fmt.Sprint(a.Content["answer"]))}, nil
	})
	return backendtest.HTTP(t, s, true)
}

// stateless is the URL of one that returns input_required with a requestState.
func (d *desk) stateless(t *testing.T) string {
	b := &backendtest.Raw{Modern: true, Tools: `{"name":"book","inputSchema":{"type":"object"}}`, Handle: func(x *backendtest.Exchange) {
		what := x.Param("arguments", "what")
		answer := x.Param("inputResponses", "which one?", "content", "answer")
		switch {
		case answer != "" && x.Param("requestState") != fmt.Sprintf(`"state of %s"`, strings.Trim(what, `"`)):
			x.JSON(`{"resultType":"complete","isError":true,"content":[{"type":"text","text":"not my state"}]}`)
		case answer != "":
			x.JSON(`{"resultType":"complete","content":[],"structuredContent":{"booked":"` + d.book(strings.Trim(answer, `"`)) + `"}}`)
		default:
			d.ask()
			x.JSON(`{"resultType":"input_required","requestState":"state of ` + strings.Trim(what, `"`) + `","inputRequests":{"which one?":{"method":"elicitation/create","params":{"message":` + what +
				`,"requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}}}}}}}`)
		}
	}}
	return b.Start(t)
}

var eras = map[string]func(*desk, *testing.T) string{"sessions": (*desk).sessions, "stateless": (*desk).stateless}

const booksTwo = `
def run(params):
    one = call_tool("book", {"what": "first"})["booked"]
    return [one] + parallel(lambda w: call_tool("book", {"what": w})["booked"], ["left", "right"])
`

func startDesk(t *testing.T, era, script string, more func(*config.Config)) (*desk, durable.Store, string) {
	d := &desk{}
	_, kept, url := startKept(t, script, func(c *config.Config) {
		c.Backends = []config.Backend{{Name: "desk", URL: eras[era](d, t)}}
		if more != nil {
			more(c)
		}
	})
	return d, kept, url
}

// TestBackendsAskInRuns: the question of a backend in a call of a script reaches the client with a state that may be
// sent several times concurrently; nothing is asked or done twice.
func TestBackendsAskInRuns(t *testing.T) {
	for era := range eras {
		for _, durable := range []string{"auto", "never"} {
			t.Run(fmt.Sprintf("%s %s", era, durable), func(t *testing.T) {
				d, _, url := startDesk(t, era, booksTwo, func(c *config.Config) { c.Runs.Durable = durable })
				result, _ := modernCall(t, url, "asking", "")
				for range 6 {
					if strings.Contains(string(result), "structuredContent") {
						break
					}
					in := asks(t, result)
					results := make([]json.RawMessage, 4)
					var all sync.WaitGroup
					for i := range results {
						all.Go(func() { results[i], _ = modernCall(t, url, "asking", in.answers()) })
					}
					all.Wait()
					result = results[0]
				}
				if want := `"structuredContent":{"result":["to first","to left","to right"]}`; !strings.Contains(string(result), want) && !strings.Contains(string(result), `"structuredContent":["to first","to left","to right"]`) {
					t.Errorf("got %s\nwant %s", result, want)
				}
				asked, done := d.counts()
				if slices.Sort(done); asked != 3 || !slices.Equal(done, []string{"to first", "to left", "to right"}) {
					t.Errorf("the backend has asked %d times, and done %q", asked, done)
				}
			})
		}
	}
}

// TestBackendsAskSessions: the client of a session is sent a request, and its refusal is an error of the call.
func TestBackendsAskSessions(t *testing.T) {
	for era := range eras {
		for _, refuses := range []bool{false, true} {
			t.Run(fmt.Sprint(era, " ", refuses), func(t *testing.T) {
				d, _, url := startDesk(t, era, `def run(params): return try_call_tool("book", {"what": "it"})`, nil)
				o := &mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}, ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					if refuses {
						return nil, fmt.Errorf("not now")
					}
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "to " + r.Params.Message}}, nil
				}}
				r, err := connect(t, url, "2025-11-25", o).CallTool(t.Context(), &mcp.CallToolParams{Name: "asking"})
				if err != nil {
					t.Fatal(err)
				}
				got, want := fmt.Sprint(r.StructuredContent), "booked:to it"
				if refuses {
					want = "not now"
				}
				if asked, done := d.counts(); !strings.Contains(got, want) || asked != 1 || len(done) == 0 != refuses {
					t.Errorf("got %s, want %s; asked %d times, done %q", got, want, asked, done)
				}
			})
		}
	}
}

// TestAnOperatorAnswersABackend: an operator may answer the question of a backend, and a repeated request has the
// result.
func TestAnOperatorAnswersABackend(t *testing.T) {
	for era := range eras {
		t.Run(era, func(t *testing.T) {
			d, kept, url := startDesk(t, era, `def run(params): return call_tool("book", {"what": "it"})`, nil)
			result, _ := modernCall(t, url, "asking", "")
			in := asks(t, result)
			list, _, err := kept.List(t.Context(), durable.Filter{})
			if err != nil || len(list) != 1 || list[0].Questions != 1 {
				t.Fatalf("the runs are %+v, %v; want one with a question", list, err)
			}
			r, _, err := kept.Get(t.Context(), list[0].ID)
			if err != nil || !strings.HasPrefix(r.Questions[0].Key, "0/0/") || r.Questions[0].Deadline.IsZero() {
				t.Fatalf("questions %+v, %v", r.Questions, err)
			}
			if err := kept.Answer(t.Context(), r.ID, r.Questions[0].Key, json.RawMessage(`{"action":"accept","content":{"answer":"by hand"}}`)); err != nil {
				t.Fatal(err)
			}
			result, failure := modernCall(t, url, "asking", fmt.Sprintf(`,"requestState":%q`, in.RequestState))
			if !strings.Contains(string(result), `{"booked":"by hand"}`) {
				t.Errorf("got %s %s", result, failure)
			}
			if r, _, _ := kept.Get(t.Context(), r.ID); r.State != durable.Done {
				t.Errorf("the run is %s", r.State)
			}
			if asked, done := d.counts(); asked != 1 || len(done) != 1 {
				t.Errorf("asked %d times, done %q", asked, done)
			}
		})
	}
}

// TestNobodyAnswersABackend: when the time is over the call has failed, and the question is closed.
func TestNobodyAnswersABackend(t *testing.T) {
	testmode.Parallel(t)
	for era := range eras {
		t.Run(era, func(t *testing.T) {
			var d *desk
			var kept durable.Store
			var url string
			result := inTime(t, func(within time.Duration) json.RawMessage {
				d, kept, url = startDesk(t, era, `def run(params): return try_call_tool("book", {"what": "it"})`, func(c *config.Config) {
					c.Limits.ElicitTimeout = config.Duration(within)
				})
				return first(modernCall(t, url, "asking", ""))
			})
			in := asks(t, result)
			result, failure := modernCall(t, url, "asking", fmt.Sprintf(`,"requestState":%q`, in.RequestState))
			for strings.Contains(string(result), "input_required") {
				result, failure = modernCall(t, url, "asking", fmt.Sprintf(`,"requestState":%q`, in.RequestState))
			}
			if !strings.Contains(string(result), "no answer arrived in time") {
				t.Errorf("got %s %s", result, failure)
			}
			list, _, err := kept.List(t.Context(), durable.Filter{})
			if err != nil || len(list) != 1 || list[0].Questions != 0 || list[0].State != durable.Done {
				t.Errorf("the runs are %+v, %v", list, err)
			}
			if _, done := d.counts(); len(done) != 0 {
				t.Errorf("done %q", done)
			}
		})
	}
}

// TestQuestionsOfARunAreBounded: a stateless backend that asks without an end, and one that asks too much.
func TestQuestionsOfARunAreBounded(t *testing.T) {
	for what, requests := range map[string]string{
		"too many": func() string {
			var all []string
			for i := range 1001 {
				all = append(all, fmt.Sprintf(`"%d":{"method":"elicitation/create","params":{}}`, i))
			}
			return strings.Join(all, ",")
		}(),
		"too large": `"a":{"method":"elicitation/create","params":{"message":"` + strings.Repeat("x", 8<<20) + `"}}`,
	} {
		t.Run(what, func(t *testing.T) {
			b := &backendtest.Raw{Modern: true, Tools: `{"name":"book","inputSchema":{"type":"object"}}`, Handle: func(x *backendtest.Exchange) {
				if x.Message.Method == wire.ToolsCall {
					x.JSON(`{"resultType":"input_required","requestState":"s","inputRequests":{` + requests + `}}`)
				}
			}}
			_, kept, url := startKept(t, `def run(params): return try_call_tool("book", {})`, func(c *config.Config) {
				c.Backends = []config.Backend{{Name: "desk", URL: b.Start(t)}}
			})
			result, failure := modernCall(t, url, "asking", "")
			if !strings.Contains(string(result), "the run") || !strings.Contains(string(result), "question") {
				t.Errorf("got %.300s %s", result, failure)
			}
			if list, _, err := kept.List(t.Context(), durable.Filter{}); err != nil || len(list) != 1 || list[0].Questions != 0 {
				t.Errorf("the runs are %+v, %v", list, err)
			}
		})
	}
}

// TestABackendAsksInAnotherProcess: a client whose request arrives at another process than the one in which the backend
// waits is asked there, and its answer reaches the backend.
func TestABackendAsksInAnotherProcess(t *testing.T) {
	d, kept := &desk{}, durable.NewMemory(durable.Options{}, nil)
	backend := d.sessions(t)
	var urls []string
	for range 2 {
		_, url, _ := startOver(t, kept, `def run(params): return call_tool("book", {"what": "it"})`, func(c *config.Config) {
			c.Backends = []config.Backend{{Name: "desk", URL: backend}}
		})
		urls = append(urls, url)
	}
	call := func(url, more string) json.RawMessage { return keyedCall(t, url, more) }
	asks(t, call(urls[0], ""))
	in := asks(t, call(urls[1], ""))
	if got := string(call(urls[1], in.answers())); !strings.Contains(got, `{"booked":"to it"}`) {
		t.Errorf("got %s", got)
	}
	if asked, done := d.counts(); asked != 1 || len(done) != 1 {
		t.Errorf("asked %d times, done %q", asked, done)
	}
}

// keyedCall calls with an idempotency key, which names the run in every process.
func keyedCall(t *testing.T, url, more string) json.RawMessage {
	t.Helper()
	r := modernRequest(t.Context(), url, "asking", more)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(body), `"_meta":{`, `"_meta":{"dev.vmcp/idempotencyKey":"k",`, 1)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.LastIndex(answer, []byte("data: ")); i >= 0 {
		answer = answer[i+len("data: "):]
	}
	return jsonscan.Get(answer, "result")
}

// TestAnswersThatComeWhileOthersAreAwaited: one branch waits for its backend, which waits for an answer, and another
// branch is suspended with a question. An operator, or a client of another process, answers the latter first; when the
// run is suspended for it nevertheless, it is not asked again.
func TestAnswersThatComeWhileOthersAreAwaited(t *testing.T) {
	const script = `def run(params): return parallel([lambda: call_tool("live.book", {"what": "left"})["booked"], lambda: call_tool("later.book", {"what": "right"})["booked"]])`
	for _, by := range []string{"a shell", "another process"} {
		t.Run(by, func(t *testing.T) {
			live, later, kept := &desk{}, &desk{}, durable.NewMemory(durable.Options{}, nil)
			backends := []config.Backend{{Name: "live", URL: live.sessions(t)}, {Name: "later", URL: later.stateless(t)}}
			var urls []string
			for range 2 {
				_, url, _ := startOver(t, kept, script, func(c *config.Config) { c.Backends = backends })
				urls = append(urls, url)
			}
			first := asks(t, keyedCall(t, urls[0], ""))
			run := untilOpen(t, kept, 2)
			stopped := run.Questions[slices.IndexFunc(run.Questions, func(q durable.Question) bool { return strings.HasPrefix(q.Key, "0.b1.") })].Key
			answer := `{"action":"accept","content":{"answer":"to right"}}`
			if len(first.InputRequests) != 1 || first.InputRequests[stopped].Params.Message != "" {
				t.Fatalf("asked for %+v, want what the live call waits for", first.InputRequests)
			}
			if by == "a shell" {
				if err := kept.Answer(t.Context(), run.ID, stopped, json.RawMessage(answer)); err != nil {
					t.Fatal(err)
				}
			} else {
				in := asks(t, keyedCall(t, urls[1], ""))
				if len(in.InputRequests) != 2 {
					t.Fatalf("the other process asks for %+v, want both", in.InputRequests)
				}
				asks(t, keyedCall(t, urls[1], fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:%s}`, in.RequestState, stopped, answer)))
			}
			result := keyedCall(t, urls[0], first.answers())
			if want := `["to left","to right"]`; !strings.Contains(string(result), want) {
				t.Errorf("got %s\nwant %s", result, want)
			}
			for _, d := range []*desk{live, later} {
				if asked, done := d.counts(); asked != 1 || len(done) != 1 {
					t.Errorf("asked %d times, done %q", asked, done)
				}
			}
		})
	}
}

// untilOpen waits until the only run of a store has so many open questions.
func untilOpen(t *testing.T, kept durable.Store, n int) durable.Run {
	t.Helper()
	for {
		changed := kept.Changed()
		list, _, err := kept.List(t.Context(), durable.Filter{})
		if err != nil || len(list) != 1 {
			t.Fatalf("the runs are %+v, %v; want one", list, err)
		}
		if list[0].Questions == n {
			r, _, err := kept.Get(t.Context(), list[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		select {
		case <-changed:
		case <-time.After(5 * time.Millisecond): // a question is no change that is announced
		}
	}
}
