package proxy_test

import (
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// TestPrefixUnderEveryStrategy: the prefix of a backend applies to tools and prompts under every strategy; "" is no
// prefix, and if two entries get the same name then, the strategy decides.
func TestPrefixUnderEveryStrategy(t *testing.T) {
	testmode.Parallel(t)
	none, own := "", "cal-"
	mail, calendar := sdkBackend(t, department("mail", "list", "send"), false), sdkBackend(t, department("calendar", "list"), true)
	for _, tt := range []struct {
		strategy         string
		ofMail, ofOthers *string
		tools, prompts   string
	}{
		{"prefix", &none, nil, "calendar_list list send", "calendar_write write"},
		{"prefix", nil, &own, "cal-list mail_list mail_send", "cal-write mail_write"},
		{"priority", &own, nil, "cal-list cal-send list", "cal-write write"},
		{"priority", &none, &own, "cal-list list send", "cal-write write"},
		{"manual", nil, &own, "cal-list list send", "cal-write write"},
		{"prefix", &none, &none, "list send", "write"},
	} {
		cfg := &config.Config{Backends: []config.Backend{{Name: "mail", URL: mail, Prefix: tt.ofMail}, {Name: "calendar", URL: calendar, Prefix: tt.ofOthers}}}
		cfg.Aggregation.ConflictResolution = tt.strategy
		if tt.strategy == "priority" {
			cfg.Aggregation.ConflictResolutionConfig.PriorityOrder = []string{"mail", "calendar"}
		}
		_, url := start(t, cfg)
		c := at(t, url, "")
		if got := c.names("tools/list", "tools", "name"); got != tt.tools {
			t.Errorf("%s: tools %q, want %q", tt.strategy, got, tt.tools)
		}
		if got := c.names("prompts/list", "prompts", "name"); got != tt.prompts {
			t.Errorf("%s: prompts %q, want %q", tt.strategy, got, tt.prompts)
		}
	}
}
