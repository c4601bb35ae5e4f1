package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/test/rig"
)

// series are the lines of /metrics that are series.
func series(t *testing.T, url string) []string {
	t.Helper()
	_, page := ask(t, "GET", strings.TrimSuffix(url, "/mcp")+"/metrics", "", "")
	var found []string
	for line := range strings.Lines(page) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			found = append(found, line)
		}
	}
	return found
}

// with are those of the series that begin with a text.
func with(all []string, begin string) (found []string) {
	for _, s := range all {
		if strings.HasPrefix(s, begin) {
			found = append(found, s)
		}
	}
	return found
}

// toolsNamed is the list of a backend with n tools.
func toolsNamed(prefix string, n int) string {
	var tools []string
	for i := range n {
		tools = append(tools, fmt.Sprintf(`{"name":"%s%d","inputSchema":{"type":"object"}}`, prefix, i))
	}
	return strings.Join(tools, ",")
}

// many are backends with tools, each of which answers ok.
func many(t *testing.T, backends, tools int) (cfg *config.Config) {
	cfg = &config.Config{}
	for i := range backends {
		b := &backendtest.Raw{Tools: toolsNamed("t", tools), Handle: func(x *backendtest.Exchange) { x.JSON(`{"content":[]}`) }}
		cfg.Backends = append(cfg.Backends, config.Backend{Name: fmt.Sprintf("b%d", i), URL: b.Start(t)})
	}
	return cfg
}

// TestSeriesAreBounded: 500 tools of 50 backends, all called, have less than 5000 series, and unknown names add none.
func TestSeriesAreBounded(t *testing.T) {
	_, url := start(t, many(t, 50, 10))
	for i := range 50 {
		for j := range 10 {
			if _, failure := modernCall(t, url, fmt.Sprintf("b%d_t%d", i, j), ""); failure != nil {
				t.Fatalf("b%d_t%d: %s", i, j, failure)
			}
		}
	}
	before := series(t, url)
	if n := len(with(before, `vmcp_tool_calls_total{backend="b49",outcome="ok",tool="b49_t9"} 1`)); n != 1 || len(before) >= 5000 {
		t.Errorf("%d series, %d of the last tool; want less than 5000, and one", len(before), n)
	}
	for i := range 200 {
		if _, failure := modernCall(t, url, fmt.Sprintf("nobody_%d", i), ""); failure == nil {
			t.Fatal("an unknown tool was called")
		}
	}
	after := series(t, url)
	if len(after) != len(before) {
		t.Errorf("200 unknown names added %d series", len(after)-len(before))
	}
	if n := len(with(after, `vmcp_tool_calls_total{backend="",outcome="error",tool="other"} 200`)); n != 1 {
		t.Errorf("the calls of unknown names are not counted: %q", with(after, `vmcp_tool_calls_total{backend=""`))
	}
}

// TestSeriesOfToolsThatAreGone: they are deleted with the tool, the backend or the script.
func TestSeriesOfToolsThatAreGone(t *testing.T) {
	cfg := many(t, 2, 2)
	cfg.ScriptedTools = []config.ScriptedTool{{Name: "twice", Description: "d", Script: `def run(p): return [call_tool("b0_t0"), call_tool("b1_t1")]`}}
	p, url := start(t, cfg)
	modernCall(t, url, "twice", "")
	modernCall(t, url, "b1_t0", "")
	all := series(t, url)
	for _, want := range []string{
		`vmcp_tool_calls_total{backend="",outcome="ok",tool="twice"} 1`, `vmcp_tool_calls_total{backend="b0",outcome="ok",tool="b0_t0"} 1`,
		`vmcp_tool_call_duration_seconds_bucket{backend="b1",tool="b1_t0",le="0.00025"} `, `vmcp_tool_call_duration_seconds_count{backend="",tool="twice"} 1`,
		`vmcp_backend_request_duration_seconds_count{backend="b1",method="tools/call"} 2`, `vmcp_backend_request_duration_seconds_bucket{backend="b0",method="tools/call",le="0.00025"} `,
		`vmcp_script_runs_total{outcome="ok",tool="twice"} 1`, `vmcp_script_queue_wait_seconds_count 1`, `vmcp_backend_breaker_state{backend="b0"} 0`,
		`vmcp_backend_connections_waiting{backend="b0"} 0`, `vmcp_backend_cancelled_total{backend="b0"} 0`, `vmcp_script_runs_waiting 0`,
	} {
		if len(with(all, want)) != 1 {
			t.Errorf("no series %s in\n%s", want, strings.Join(with(all, want[:strings.IndexAny(want+"{", "{ ")]), "\n"))
		}
	}
	next := &config.Config{Backends: cfg.Backends[:1]}
	if err := p.Apply(next); err != nil {
		t.Fatal(err)
	}
	for _, s := range series(t, url) {
		if strings.Contains(s, `"b1"`) || strings.Contains(s, `tool="twice"`) || strings.Contains(s, `tool="b0_t0"`) { // alone, it has no prefix any more
			t.Errorf("still there: %s", s)
		}
	}
}

// TestMostToolLabels: tools beyond the bound are counted together, per backend.
func TestMostToolLabels(t *testing.T) {
	for most, want := range map[int]string{3: "b0_t0 b0_t1 b1_t0", 1: "b0_t0 other other", 0: "other other other"} {
		cfg := many(t, 2, 2)
		cfg.Telemetry = config.Telemetry{MaxToolLabels: &most}
		_, url := start(t, cfg)
		for _, tool := range []string{"b0_t0", "b0_t1", "b1_t0"} {
			modernCall(t, url, tool, "")
		}
		all, labels := series(t, url), strings.Fields(want)
		for i, backend := range []string{"b0", "b0", "b1"} {
			if len(with(all, fmt.Sprintf(`vmcp_tool_calls_total{backend=%q,outcome="ok",tool=%q} `, backend, labels[i]))) != 1 {
				t.Errorf("with %d labels the calls are %q, want them as %s", most, with(all, "vmcp_tool_calls_total"), want)
			}
		}
	}
}

// TestLabelsFollowTheBound: a changed maxToolLabels applies at once, also to scripts and their effects, and the series
// of a removed script are deleted.
func TestLabelsFollowTheBound(t *testing.T) {
	cfg := many(t, 2, 2)
	cfg.ScriptedTools = []config.ScriptedTool{{Name: "twice", Description: "d", Script: "def run(params):\n    call_tool(\"b0_t0\")\n    call_tool(\"b1.t0\")\n    return {}\n"}}
	p, url := start(t, cfg)
	call := func() {
		for _, tool := range []string{"twice", "b0_t0", "b1_t1"} {
			modernCall(t, url, tool, "")
		}
	}
	own := []string{
		`vmcp_tool_calls_total{backend="b0",outcome="ok",tool="b0_t0"}`, `vmcp_tool_call_duration_seconds_count{backend="b1",tool="b1_t1"}`,
		`vmcp_script_runs_total{outcome="ok",tool="twice"}`, `vmcp_script_run_duration_seconds_count{tool="twice"}`, `vmcp_script_steps_total{tool="twice"}`,
		`vmcp_script_effects_total{kind="call",name="b0_t0",outcome="ok",tool="twice"}`, `vmcp_script_effects_total{kind="call",name="b1.t0",outcome="ok",tool="twice"}`,
		`vmcp_script_effect_duration_seconds_count{kind="call",tool="twice"}`,
	}
	together := []string{
		`vmcp_tool_calls_total{backend="b0",outcome="ok",tool="other"}`, `vmcp_script_runs_total{outcome="ok",tool="other"}`,
		`vmcp_script_effects_total{kind="call",name="other",outcome="ok",tool="other"}`,
	}
	has := func(what string, want bool, names []string) {
		t.Helper()
		all := series(t, url)
		for _, s := range names {
			if got := len(with(all, s+" ")) == 1; got != want {
				t.Errorf("%s: series %s: %t, want %t", what, s, got, want)
			}
		}
	}
	bound := func(most int, scripts []config.ScriptedTool) {
		t.Helper()
		next := *cfg
		next.Telemetry, next.ScriptedTools = config.Telemetry{MaxToolLabels: &most}, scripts
		if err := p.Apply(&next); err != nil {
			t.Fatal(err)
		}
	}
	call()
	has("with labels", true, own)
	has("with labels", false, together)
	bound(0, cfg.ScriptedTools)
	has("as soon as there are none", false, own)
	call()
	has("without labels", false, own)
	has("without labels", true, together)
	bound(500, cfg.ScriptedTools)
	call()
	has("with labels again", true, own)
	next := *cfg
	next.Backends = cfg.Backends[:1]
	if err := p.Apply(&next); err != nil {
		t.Fatal(err)
	}
	has("without the backend", true, []string{`vmcp_script_runs_total{outcome="ok",tool="twice"}`})
	has("without the backend", false, []string{`vmcp_script_effects_total{kind="call",name="b1.t0",outcome="ok",tool="twice"}`})
	bound(500, nil)
	for _, s := range series(t, url) {
		if strings.Contains(s, `"twice"`) {
			t.Errorf("the script is gone, its series is there: %s", s)
		}
	}
}

// TestNativeHistograms: they exist in addition to the classic buckets.
func TestNativeHistograms(t *testing.T) {
	_, url := start(t, many(t, 1, 1))
	modernCall(t, url, "t0", "")
	r, err := http.NewRequestWithContext(t.Context(), "GET", strings.TrimSuffix(url, "/mcp")+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	found := map[string]*dto.MetricFamily{}
	for d := expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header)); ; {
		family := &dto.MetricFamily{}
		if d.Decode(family) != nil {
			break
		}
		found[family.GetName()] = family
	}
	for _, name := range []string{"vmcp_tool_call_duration_seconds", "vmcp_backend_request_duration_seconds", "vmcp_request_duration_seconds"} {
		one := 0
		for _, m := range found[name].GetMetric() {
			if h := m.GetHistogram(); h.GetSampleCount() > 0 && len(h.GetPositiveSpan()) > 0 && h.GetBucket()[0].GetUpperBound() == .00025 {
				one++
			}
		}
		if one == 0 {
			t.Errorf("%s has no native buckets beside classic ones from 0.25 ms on: %v", name, found[name])
		}
	}
}

// TestBackendPressureInMetrics: a queued caller, one that cancels, and a breaker that opens.
func TestBackendPressureInMetrics(t *testing.T) {
	served := make(chan struct{}, 10)
	b := &backendtest.Raw{Tools: toolsNamed("t", 1), Handle: func(x *backendtest.Exchange) {
		if x.Message.Method == "tools/call" { // and not the stream of the session
			served <- struct{}{}
		}
		<-x.Request.Context().Done()
	}}
	cfg := &config.Config{Backends: []config.Backend{{Name: "slow", URL: b.Start(t)}}}
	cfg.Operational.FailureHandling.CircuitBreaker = &config.CircuitBreaker{Enabled: true, FailureThreshold: 1}
	p, url := start(t, cfg)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := http.DefaultClient.Do(modernRequest(ctx, url, "t0", "")); err == nil {
			resp.Body.Close()
		}
	}()
	<-served
	leave()
	<-gone
	await := func(one string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		name, want, _ := strings.Cut(one, "} ")
		err := rig.Poll(ctx, one, func() (bool, error) {
			return metric(t, url, name+"}") == want, nil
		})
		if err != nil {
			t.Fatalf("%v; it is %s: %q", err, metric(t, url, name+"}"), append(with(series(t, url), "vmcp_tool_calls"), with(series(t, url), "vmcp_backend_")...))
		}
	}
	await(`vmcp_backend_cancelled_total{backend="slow"} 1`)
	await(`vmcp_tool_calls_total{backend="slow",outcome="cancelled",tool="t0"} 1`)
	cfg = &config.Config{Backends: []config.Backend{{Name: "slow", URL: cfg.Backends[0].URL, Timeout: config.Duration(time.Millisecond)}}, Operational: cfg.Operational}
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	modernCall(t, url, "t0", "")
	await(`vmcp_backend_breaker_state{backend="slow"} 2`)
	await(`vmcp_tool_calls_total{backend="slow",outcome="timeout",tool="t0"} 1`)
}
