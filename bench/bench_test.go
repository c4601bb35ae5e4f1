package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The load client works with the backend in both eras and forms, and
// results have the size in the name of their tool.
func TestClientAndBackend(t *testing.T) {
	s := httptest.NewServer(newBackend())
	defer s.Close()
	for _, revision := range []string{legacy, modern} {
		c, err := dial(target{url: s.URL + "/" + revision + "/few/mcp", revision: revision})
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		for _, form := range []string{"json", "sse"} {
			for _, size := range sizes {
				if err := c.do(c.call(answerTool(form, size), `{"text":"hello"}`, size)); err != nil {
					t.Errorf("%s %s %d: %v", revision, form, size, err)
				}
				if extra := len(c.body) - size; extra > 150 {
					t.Errorf("%s %s %d: the answer is %d bytes longer", revision, form, size, extra)
				}
			}
		}
	}
}

func TestPreparedAnswersAreJSON(t *testing.T) {
	b := newBackend()
	for name, a := range b.results {
		if !json.Valid([]byte(a.legacy)) || !json.Valid([]byte(a.modern)) {
			t.Errorf("result of %s is not JSON", name)
		}
	}
	for name, a := range b.lists {
		if !json.Valid([]byte(a.legacy)) || !json.Valid([]byte(a.modern)) {
			t.Errorf("list %s is not JSON", name)
		}
	}
}

// A wrong response is an error, and not a fast call.
func TestClientRefusesWrongAnswers(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"another id", `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}]}}`, "not the result"},
		{"an error", `{"jsonrpc":"2.0","id":100000001,"error":{"code":1,"message":"no"}}`, "not the result"},
		{"too short", `{"jsonrpc":"2.0","id":100000001,"result":{}}`, "want 100"},
		{"a failed tool", `{"jsonrpc":"2.0","id":100000001,"result":{"content":[` + strings.Repeat(" ", 100) + `],"isError":true}}`, "the tool failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(tt.body)) }))
			defer s.Close()
			c, err := dial(target{url: s.URL + "/mcp", revision: modern})
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			if err := c.do(c.call("x", "{}", 100)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("do = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestVolley(t *testing.T) {
	v := volley{elapsed: 2 * time.Second}
	for i := range 101 {
		v.times = append(v.times, time.Duration(i)*time.Microsecond)
	}
	if p50, p99, rate := v.quantile(0.5), v.quantile(0.99), v.perSecond(); p50 != 50 || p99 != 99 || rate != 50.5 {
		t.Errorf("p50 %v, p99 %v, %v per second; want 50, 99, 50.5", p50, p99, rate)
	}
}

// Ratios are computed within a round: temporary noise affects both sides.
func TestCompareWithinRounds(t *testing.T) {
	base := []leg{{P50: 10, FrontCPU: 10, PerSecond: 100}, {P50: 100, FrontCPU: 50, PerSecond: 10}, {P50: 20, FrontCPU: 10, PerSecond: 50}}
	ours := []leg{{P50: 12, FrontCPU: 20, PerSecond: 80}, {P50: 120, FrontCPU: 100, PerSecond: 8}, {P50: 60, FrontCPU: 20, PerSecond: 10}}
	want := ratios{P50: 1.2, CPU: 2, Throughput: 1.25}
	want.Spread.P50, want.Spread.CPU = [2]float64{1.2, 3}, [2]float64{2, 2}
	if got := compare(base, ours); got != want {
		t.Errorf("compare = %+v, want %+v", got, want)
	}
}

func TestExceeded(t *testing.T) {
	r := &report{Figures: []figure{
		{Name: "fine", Value: 2.5, Unit: "x", Target: 1.25},
		{Name: "too slow", Value: 2.6, Unit: "x", Target: 1.25},
		{Name: "without a target", Value: 1000, Unit: "x"},
		{Name: "within its limit", Value: 100, Limit: 100},
		{Name: "over its limit", Value: 101, Limit: 100},
	}}
	bad := r.exceeded(checkMargin)
	if len(bad) != 2 || bad[0].Name != "too slow" || bad[1].Name != "over its limit" {
		t.Errorf("exceeded = %+v, want the one that is too slow and the one over its limit", bad)
	}
}

func TestFigureText(t *testing.T) {
	for _, tt := range []struct {
		value float64
		unit  string
		want  string
	}{{1.25, "x", "1.25"}, {1234.5, "B", "1.23 kB"}, {2e6, "B", "2 MB"}, {17.3, "us", "17.3 µs"}, {250.4, "ms", "250 ms"}, {54400, "", "54400"}} {
		if got := (&figure{Unit: tt.unit}).text(tt.value); got != tt.want {
			t.Errorf("text(%v %s) = %q, want %q", tt.value, tt.unit, got, tt.want)
		}
	}
}
