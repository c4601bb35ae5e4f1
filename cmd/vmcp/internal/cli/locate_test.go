package cli_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
)

// The endpoint of a configuration.
func TestFoundIn(t *testing.T) {
	t.Setenv("VMCP_TOKEN", "")
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here := fmt.Sprintf("http://%s/mcp", l.Addr())
	for name, text := range map[string]string{
		"live.json":  fmt.Sprintf(`{"url":%q,"pid":%d,"tokenFile":"t"}`, here, os.Getpid()),
		"dead.json":  fmt.Sprintf(`{"url":%q,"pid":%d,"tokenFile":"t"}`, here, 1<<30),
		"gone.json":  fmt.Sprintf(`{"url":"http://127.0.0.1:1/mcp","pid":%d,"tokenFile":"t"}`, os.Getpid()),
		"other.json": `{"mine":true}`,
		"a":          "of-operators\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HERE", "fd00::1:2")
	for _, tt := range []struct{ config, url, token string }{
		{"", cli.DefaultURL, ""},
		{"listen: 0.0.0.0:80", "http://127.0.0.1:80/mcp", ""},
		{"listen: '[::]:80'\ntls: {cert: c.pem}", "https://127.0.0.1:80/mcp", ""},
		{"tls: {cert: c.pem}", "https://127.0.0.1:4483/mcp", ""},
		{"listen: 127.0.0.1:0", cli.DefaultURL, ""},
		{"listen: [", cli.DefaultURL, ""},
		{"listen: '${HERE}:80'", "http://[fd00::1:2]:80/mcp", ""},
		{"listen: '${ONLY_THE_SERVER_HAS_IT}:80'", "http://127.0.0.1:80/mcp", ""},
		{"listen: '${HERE}'", cli.DefaultURL, ""},
		{"discovery: {file: live.json}", here, "t"},
		{"discovery: {file: dead.json}", cli.DefaultURL, ""},
		{"discovery: {file: gone.json}", cli.DefaultURL, ""},
		{"discovery: {file: other.json}", cli.DefaultURL, ""},
		{"listen: 127.0.0.1:80\nadmin: {listen: '127.0.0.1:81', tokenFile: a}\ndiscovery: {file: none.json}", "http://127.0.0.1:80/mcp", ""},
	} {
		file := filepath.Join(dir, "vmcp.yaml")
		if err := os.WriteFile(file, []byte(tt.config), 0o600); err != nil {
			t.Fatal(err)
		}
		f := cli.FindEndpoint(cli.Flags{Config: file})
		if f.URL != tt.url || f.TokenFile() != tt.token {
			t.Errorf("%q: %s with token file %q, want %s with %q", tt.config, f.URL, f.TokenFile(), tt.url, tt.token)
		}
		if token, err := f.AdminToken(); strings.Contains(tt.config, "admin") && (f.AdminURL != "http://127.0.0.1:81" || token != "of-operators") {
			t.Errorf("%q: operators are at %q with %q, %v", tt.config, f.AdminURL, token, err)
		}
	}
}

// The user's discovery file gives the address of a configuration that is served elsewhere than it says, and of no other.
func TestServedElsewhere(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here := fmt.Sprintf("http://%s/mcp", l.Addr())
	mine := filepath.Join(dir, "vmcp.yaml")
	if err := os.Mkdir(filepath.Join(home, ".vmcp"), 0o700); err != nil {
		t.Fatal(err)
	}
	announced := fmt.Sprintf(`{"url":%q,"pid":%d,"config":%q}`, here, os.Getpid(), mine)
	if err := os.WriteFile(filepath.Join(home, ".vmcp", "server.json"), []byte(announced), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ file, text, want string }{
		{mine, "listen: 127.0.0.1:80", here},
		{mine, "listen: 127.0.0.1:80\ndiscovery: {file: none}", "http://127.0.0.1:80/mcp"},
		{mine, "listen: 127.0.0.1:80\ndiscovery: {file: own.json}", "http://127.0.0.1:80/mcp"},
		{filepath.Join(dir, "other.yaml"), "listen: 127.0.0.1:80", "http://127.0.0.1:80/mcp"},
	} {
		if err := os.WriteFile(tt.file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if f := cli.FindEndpoint(cli.Flags{Config: tt.file}); f.URL != tt.want {
			t.Errorf("%s, %q: %s, want %s", filepath.Base(tt.file), tt.text, f.URL, tt.want)
		}
	}
	other := filepath.Join(dir, "other.yaml")
	if f := cli.FindEndpoint(cli.Flags{Config: other, Running: true}); f.URL != here || f.Instead != "http://127.0.0.1:80/mcp" {
		t.Errorf("for who only looks: %+v, want %s", f, here)
	}
	if err := os.WriteFile(other, []byte("listen: "+l.Addr().String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := cli.FindEndpoint(cli.Flags{Config: other, Running: true}); f.URL != here || f.Instead != "" {
		t.Errorf("where the configuration answers: %+v", f)
	}
}
