package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/proxy/edge"
)

func TestPprofIsServedOnThisMachineOnly(t *testing.T) {
	var out bytes.Buffer
	a := &app{err: &out}
	stop, err := a.servePprof("127.0.0.1:0", edge.NewOrigins(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(out.String()), "profiles at ")
	resp, err := http.Get(url + "goroutine?debug=1")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("GET %s: %v, %v", url, resp, err)
	}
	stop()
	if _, err := http.Get(url); err == nil {
		t.Error("profiles are served after the end")
	}
	if _, err := a.servePprof("0.0.0.0:0", edge.NewOrigins(nil, nil)); err == nil || !strings.Contains(err.Error(), "other machines can reach this address") {
		t.Errorf("an address that others reach: %v", err)
	}
}
