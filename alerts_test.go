package vmcp

import (
	"os"
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
	metric := regexp.MustCompile(`\b(?:vmcp|go|process)_[a-z_]+`)
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
	if len(found) != 10 {
		t.Errorf("the alerts are %v, want ten", found)
	}
}
