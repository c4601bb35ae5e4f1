package catalog_test

import (
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// TestWhatBelongs: backends by name, tools by the last matching glob, scripts if they are named or no workloads are
// listed.
func TestWhatBelongs(t *testing.T) {
	tools := []string{"mail.mail_send", "mail.mail_delete", "web.web_get", "script.report", "script.report_delete"}
	for _, tt := range []struct {
		name, workloads, tools string
		want                   string
	}{
		{"everything", "", "", "mail_send mail_delete web_get report report_delete"},
		{"a backend", "mail", "", "mail_send mail_delete"},
		{"all but some", "", "!*_delete", "mail_send web_get report"},
		{"only some", "", "mail_* report", "mail_send mail_delete report"},
		{"the last one decides", "", "* !*_delete report_delete", "mail_send web_get report report_delete"},
		{"and takes away", "", "mail_delete !*_delete", ""},
		{"a star names no script", "mail", "* !*_delete", "mail_send"},
		{"a glob names scripts", "mail", "report* !*_delete", "report"},
		{"with those of the backend", "mail", "* report", "mail_send mail_delete report"},
		{"a backend's tool from elsewhere does not come in by its name", "mail", "* web_get", "mail_send mail_delete"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := catalog.New(&config.Profile{Name: "p", Workloads: strings.Fields(tt.workloads), Tools: strings.Fields(tt.tools)})
			if got := strings.Join(in(p, tools), " "); got != tt.want {
				t.Errorf("workloads %q, tools %q:\n got %s\nwant %s", tt.workloads, tt.tools, got, tt.want)
			}
		})
	}
	if got := in(catalog.Unknown("p"), tools); got != nil {
		t.Errorf("an unknown profile has %v", got)
	}
	if got := in(nil, tools); len(got) != len(tools) {
		t.Errorf("without a profile there is only %v", got)
	}
}

func in(p *catalog.Profile, tools []string) (has []string) {
	for _, tool := range tools {
		backend, name, _ := strings.Cut(tool, ".")
		if backend == "script" && p.HasScript(name) || backend != "script" && p.HasTool(backend, name) {
			has = append(has, name)
		}
	}
	return has
}
