//go:build suites

package main

import (
	"fmt"
	"testing"
)

func TestLost(t *testing.T) {
	direct := scenario{{ID: "a", Status: "SUCCESS"}, {ID: "a", Status: "SUCCESS"}, {ID: "b", Status: "WARNING"}}
	for _, tt := range []struct {
		name    string
		proxied scenario
		want    string
	}{
		{"the same", direct, "[]"},
		{"better", scenario{{ID: "a", Status: "SUCCESS"}, {ID: "a", Status: "SUCCESS"}, {ID: "b", Status: "SUCCESS"}}, "[]"},
		{"a failure", scenario{{ID: "a", Status: "SUCCESS"}, {ID: "a", Status: "FAILURE"}, {ID: "b", Status: "WARNING"}}, "[a FAILURE]"},
		{"a failure before the rest", scenario{{ID: "a", Status: "FAILURE"}}, "[a FAILURE a FAILURE]"},
		{"a warning instead of a success", scenario{{ID: "a", Status: "SUCCESS"}, {ID: "a", Status: "WARNING"}}, "[a WARNING]"},
		{"not applicable", scenario{{ID: "a", Status: "SUCCESS"}, {ID: "a", Status: "INFO"}}, "[]"},
		{"skipped", scenario{{ID: "a", Status: "SKIPPED"}, {ID: "c", Status: "SKIPPED"}}, "[a SKIPPED a SKIPPED]"},
		{"not run at all", nil, "[a not reached a not reached]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, c := range direct.lost(tt.proxied) {
				got = append(got, c.ID+" "+c.Status)
			}
			if fmt.Sprint(got) != tt.want {
				t.Errorf("lost %v, want %s", got, tt.want)
			}
		})
	}
}

func TestPassedIsTheSuitesJudgement(t *testing.T) {
	for _, tt := range []struct {
		checks scenario
		want   bool
	}{
		{scenario{{Status: "SUCCESS"}}, true},
		{scenario{{Status: "WARNING"}}, true},
		{scenario{{Status: "SUCCESS"}, {Status: "FAILURE"}}, false},
		{scenario{{Status: "SKIPPED"}}, false},
		{nil, false},
	} {
		if got := tt.checks.passed(); got != tt.want {
			t.Errorf("%v passed: %t, want %t", tt.checks, got, tt.want)
		}
	}
}
