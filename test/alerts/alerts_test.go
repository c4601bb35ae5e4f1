//go:build suites

package alerts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

var vmcp string // the binary under test

func TestMain(m *testing.M) {
	testmode.SideBySide(8)
	os.Exit(rig.WithBinary(&vmcp, m.Run))
}

// waitTime bounds every wait of a test.
const waitTime = 2 * time.Minute

// served is a running `vmcp serve`.
type served struct {
	*rig.Process
	t      *testing.T
	addr   string
	config string
}

// serve starts a proxy in front of a backend.
func serve(t *testing.T, b *backend, more string, env ...string) *served {
	t.Helper()
	config := filepath.Join(t.TempDir(), "vmcp.yaml")
	if err := os.WriteFile(config, []byte("backends:\n  - {name: b, url: "+b.url+"}\n  - {name: other, url: "+b.url+"}\n"+more), 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	p, addr, err := rig.Serve(ctx, &log, vmcp, config, env...)
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	t.Cleanup(func() {
		_ = p.Stop()
		if t.Failed() {
			t.Logf("log of vmcp:\n%s", &log)
		}
	})
	if err := rig.AwaitReady(ctx, addr); err != nil {
		t.Fatal(err)
	}
	return &served{p, t, addr, config}
}

// call calls a tool and returns the outcome.
func (s *served) call(tool string) error {
	c := &raw.Client{URL: "http://" + s.addr + "/mcp", Revision: raw.Modern}
	_, err := c.Call(s.t.Context(), "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, tool))
	return err
}

// A page is the content of /metrics: values by series.
type page map[string]float64

// scrape reads /metrics as Prometheus does.
func (s *served) scrape() page {
	s.t.Helper()
	resp, err := http.Get("http://" + s.addr + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	got := page{}
	families := expfmt.SampleDecoder{Dec: expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header)), Opts: &expfmt.DecodeOptions{Timestamp: model.Now()}}
	for {
		var samples model.Vector
		if err := families.Decode(&samples); err == io.EOF {
			return got
		} else if err != nil {
			s.t.Fatal(err)
		}
		for _, v := range samples {
			v.Metric["job"], v.Metric["instance"] = "vmcp", "a:1"
			got[v.Metric.String()] = float64(v.Value)
		}
	}
}

// A backend is an MCP server with a tool that answers at once, one that answers when the test releases it, and one that fails.
type backend struct {
	*raw.Server
	url   string
	close func()
	begun chan struct{} // one for each call of hold
	until chan struct{} // closed: they may end
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{Server: &raw.Server{Modern: true}, begun: make(chan struct{}, 100), until: make(chan struct{})}
	b.Handle = b.handle
	h := httptest.NewServer(b)
	t.Cleanup(h.Close)
	b.url, b.close = h.URL, func() { h.CloseClientConnections(); h.Close() }
	return b
}

func (b *backend) handle(c *raw.Call) (string, error) {
	const answer = `{"content":[{"type":"text","text":"done"}],"resultType":"complete"}`
	switch c.Method {
	case "tools/list":
		return b.List("tools", `{"name":"at_once","inputSchema":{"type":"object"}}`, `{"name":"hold","inputSchema":{"type":"object"}}`), nil
	case "tools/call":
		if bytes.Contains(c.Params, []byte(`"hold"`)) {
			b.begun <- struct{}{}
			select {
			case <-b.until:
			case <-c.Done():
			}
		}
		return answer, nil
	}
	return "", raw.ErrDefault
}

// TestNamesAreOnThePage: every metric of a rule or a dashboard is on a real /metrics with the labels that are used, except
// counters of events that have not happened.
func TestNamesAreOnThePage(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := serve(t, b, "scriptedTools:\n  - name: twice\n    description: Calls a tool.\n    script: |\n      def run(params):\n          return call_tool(\"b_at_once\", {})\n", "GOMEMLIMIT=1GiB")
	for _, tool := range []string{"b_at_once", "twice"} {
		if err := s.call(tool); err != nil {
			t.Fatal(err)
		}
	}
	labels := map[string][]string{} // by metric
	for series := range s.scrape() {
		name, rest, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		for _, m := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(rest, -1) {
			labels[name] = append(labels[name], m[1])
		}
	}
	// Series of rare events begin with the first event. docs/metrics.md has their labels.
	paged, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rare := map[string]bool{"vmcp_access_refused_total": true, "vmcp_quota_refused_total": true, "vmcp_script_runs_refused_total": true, "vmcp_script_limit_hits_total": true}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([\\w, ]*) \\|").FindAllStringSubmatch(string(paged), -1) {
		if rare[m[1]] {
			labels[m[1]] = append(strings.Split(m[2], ", "), "job", "instance")
		}
	}
	asked := 0
	for where, expr := range expressions(t) {
		for name, by := range usedBy(expr) {
			asked++
			known, ok := labels[name]
			if !ok {
				t.Errorf("%s: there is no %s on /metrics: %s", where, name, expr)
			}
			for _, label := range by {
				// Only endpoints of one process with several have a server.
				if ok && label != "server" && !slices.Contains(known, label) {
					t.Errorf("%s: %s has no label %s: %s", where, name, label, expr)
				}
			}
		}
	}
	if asked < 50 {
		t.Errorf("only %d uses of metrics were found", asked)
	}
}

// expressions are the expressions of all rules and panels, by their place.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	files, err := filepath.Glob("../../packaging/grafana/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../../packaging/prometheus/alerts.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := yaml.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		collect(filepath.Base(file), tree, found)
	}
	return found
}

// collect finds every expr in a tree, with the labels of its legend.
func collect(where string, tree any, found map[string]string) {
	switch v := tree.(type) {
	case map[string]any:
		if expr, ok := v["expr"].(string); ok {
			legend, _ := v["legendFormat"].(string)
			found[fmt.Sprintf("%s: %d", where, len(found))] = expr + " " + legend
		}
		for _, child := range v {
			collect(where, child, found)
		}
	case []any:
		for _, child := range v {
			collect(where, child, found)
		}
	}
}

var (
	selector = regexp.MustCompile(`\b((?:vmcp|go|process)_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	legends  = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
)

// usedBy are the metrics of an expression with the labels that it uses. Every rule and panel uses one metric, or several
// with the same labels.
func usedBy(expr string) map[string][]string {
	var all []string
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		all = append(all, regexp.MustCompile(`\w+`).FindAllString(m[1], -1)...)
	}
	for _, m := range legends.FindAllStringSubmatch(expr, -1) {
		all = append(all, m[1])
	}
	used := map[string][]string{}
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		used[m[1]] = append(used[m[1]], all...)
		for _, label := range matcher.FindAllStringSubmatch(m[2], -1) {
			used[m[1]] = append(used[m[1]], label[1])
		}
	}
	return used
}

// promtool is the path of Prometheus' tool, where it is installed.
func promtool(t *testing.T) string {
	t.Helper()
	tool := os.Getenv("VMCP_PROMTOOL")
	if tool == "" {
		t.Skip("VMCP_PROMTOOL does not name promtool, as .ci/run does")
	}
	return tool
}

// TestAlertsFire: for a process in the state of a rule, that rule fires, and no other does.
func TestAlertsFire(t *testing.T) {
	tool := promtool(t)
	for _, tt := range []struct {
		name     string
		outage   func(t *testing.T) (before, after page)
		firing   []string
		labelled string // a label that the alert names
	}{
		{"well", well, nil, ""},
		{"slow", slow, []string{"VmcpSlow"}, `backend="b"`},
		{"breaker", breakerOpen, []string{"VmcpBreakerOpen", "VmcpErrorRatio"}, `backend="b"`},
		{"refusals", refusals, []string{"VmcpAdmissionRefusals"}, ""},
		{"memory", memory, []string{"VmcpMemoryNearLimit"}, ""},
		{"reload", badEdit, []string{"VmcpReloadFailed"}, ""},
		{"down", allDown, []string{"VmcpBackendDown", "VmcpNoBackendReady"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before, after := tt.outage(t)
			got, text := firing(t, tool, before, after)
			if !slices.Equal(got, tt.firing) {
				t.Errorf("firing are %v, want %v", got, tt.firing)
			}
			if !strings.Contains(text, tt.labelled) {
				t.Errorf("no alert has %s:\n%s", tt.labelled, text)
			}
		})
	}
}

// firing are the alerts that fire when the changes between two pages happen every minute for half an hour.
func firing(t *testing.T, tool string, before, after page) (names []string, text string) {
	t.Helper()
	type series struct{ Series, Values string }
	var input []series
	for name, now := range after {
		then, ok := before[name]
		first := "_x5"
		if ok {
			first = fmt.Sprintf("%g+0x5", then)
		}
		step := 0.0
		if n, _, _ := strings.Cut(name, "{"); counts.MatchString(n) {
			step = now - then
		}
		input = append(input, series{name, fmt.Sprintf("%s %g+%gx30", first, now, step)})
	}
	rules, err := filepath.Abs("../../packaging/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// A test that expects no alerts fails with those that fire.
	test, err := yaml.Marshal(map[string]any{
		"rule_files": []string{rules}, "evaluation_interval": "1m",
		"tests": []any{map[string]any{"interval": "1m", "input_series": input, "promql_expr_test": []any{
			map[string]any{"expr": `ALERTS{alertstate="firing"}`, "eval_time": "30m", "exp_samples": []any{map[string]any{"labels": `marker{}`, "value": 1}}},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(file, test, 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.Command(tool, "test", "rules", file).CombinedOutput()
	_, got, ok := strings.Cut(string(out), "got:")
	if !ok {
		t.Fatalf("promtool: %s", out)
	}
	for _, m := range regexp.MustCompile(`alertname="(\w+)"`).FindAllStringSubmatch(got, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names), got
}

// counts are the series that only grow.
var counts = regexp.MustCompile(`_(total|bucket|count|sum)$`)
