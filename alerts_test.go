package vmcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestAlerts: each rule says what it is about, has a runbook, and names metrics that there are; each is tested. What the
// expressions do promtool tests, in .ci/run.
func TestAlerts(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Summary, Runbook string }
			}
		}
	}
	text, err := os.ReadFile("packaging/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	runbooks, tests := readPage(t, "docs/runbooks.md"), readPage(t, "packaging/prometheus/alerts_test.yaml")
	known := metricNames(t)
	var found []string
	for _, group := range rules.Groups {
		for _, r := range group.Rules {
			found = append(found, r.Alert)
			if r.Annotations.Summary == "" || r.Annotations.Runbook != "docs/runbooks.md#"+strings.ToLower(r.Alert) || !strings.Contains(runbooks, "\n## "+r.Alert+"\n") {
				t.Errorf("%s has no summary, or no runbook", r.Alert)
			}
			if !strings.Contains(tests, "name: "+r.Alert+"\n") {
				t.Errorf("%s is not tested in alerts_test.yaml", r.Alert)
			}
			names := metric.FindAllString(r.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s names no metric: %s", r.Alert, r.Expr)
			}
			for _, name := range names {
				if strings.HasPrefix(name, "vmcp_") && !slices.Contains(known, strings.TrimSuffix(name, "_bucket")) {
					t.Errorf("%s: there is no metric %s", r.Alert, name)
				}
			}
		}
	}
	if len(found) != 11 {
		t.Errorf("the alerts are %v, want eleven", found)
	}
}

// TestDashboards: each panel of each dashboard asks for metrics that there are.
func TestDashboards(t *testing.T) {
	known := metricNames(t)
	files, err := filepath.Glob("packaging/grafana/*.json")
	if err != nil || len(files) != 3 {
		t.Fatalf("the dashboards are %v (%v), want three", files, err)
	}
	for _, file := range files {
		var board struct {
			UID, Title string
			Panels     []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal([]byte(readPage(t, file)), &board); err != nil || board.UID == "" || board.Title == "" || len(board.Panels) < 8 {
			t.Errorf("%s: %v, %d panels", file, err, len(board.Panels))
		}
		for _, p := range board.Panels {
			if len(p.Targets) == 0 {
				t.Errorf("%s: %s asks for nothing", file, p.Title)
			}
			for _, target := range p.Targets {
				names := metric.FindAllString(target.Expr, -1)
				if len(names) == 0 {
					t.Errorf("%s: %s names no metric: %s", file, p.Title, target.Expr)
				}
				for _, name := range names {
					if strings.HasPrefix(name, "vmcp_") && !slices.Contains(known, strings.TrimSuffix(name, "_bucket")) {
						t.Errorf("%s: %s: there is no metric %s", file, p.Title, name)
					}
				}
			}
		}
	}
}

// metric is the name of one in an expression.
var metric = regexp.MustCompile(`\b(?:vmcp|go|process)_[a-z_]+`)

// TestMetricsArePaged: docs/metrics.md has every metric, and none that is not there.
func TestMetricsArePaged(t *testing.T) {
	page := readPage(t, "docs/metrics.md")
	var known []string
	eachSource(t, func(text string) {
		known = append(known, names(text, `(?:\bName: |NewDesc\(|histogram\(|Reloaded += )"(vmcp_[a-z_]+)"`)...)
	})
	if len(known) < 60 {
		t.Errorf("only %d metrics were found", len(known))
	}
	for _, name := range known {
		if !strings.Contains(page, "\n| `"+name+"` | ") {
			t.Errorf("docs/metrics.md: there is no row of %s", name)
		}
	}
	for _, name := range names(page, "(?m)^\\| `(vmcp_[a-z_]+)` ") {
		if !slices.Contains(known, name) {
			t.Errorf("docs/metrics.md: there is no metric %s", name)
		}
	}
}
