//go:build suites

package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/test/rig"
)

var (
	binary    string
	apiserver = os.Getenv("VMCP_APISERVER")
)

func TestMain(m *testing.M) {
	if apiserver == "" {
		os.Exit(m.Run())
	}
	os.Exit(rig.WithBinary(&binary, m.Run))
}

// cluster is an API server, and an administrator's connection to it.
type cluster struct {
	t      *testing.T
	dir    string
	url    string
	port   int
	token  string
	client *http.Client

	process *rig.Process
	stdin   io.Closer
}

// start starts an API server in a new folder, with vmcp's CRDs and the namespace team.
func start(t *testing.T) *cluster {
	t.Helper()
	if apiserver == "" {
		t.Skip("needs VMCP_APISERVER, the program of test/apiserver: the step kube of .ci/run builds it")
	}
	port, err := rig.Port()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: t.TempDir(), port: port, url: fmt.Sprintf("https://127.0.0.1:%d", port)}
	c.run()
	t.Cleanup(func() { c.kill(); c.client.CloseIdleConnections() })
	c.apply("{apiVersion: v1, kind: Namespace, metadata: {name: team}}")
	c.applyFiles("../../deploy/crds/*.yaml")
	c.await("our kinds", func() bool {
		status, _ := c.do("GET", "/apis/vmcp.dev/v1alpha1/namespaces/team/mcpserverentries", nil)
		return status == http.StatusOK
	})
	c.applyFiles("../../deploy/base/serviceaccount.yaml", "../../deploy/base/role.yaml", "../../deploy/base/rolebinding.yaml")
	return c
}

// run starts the API server on its folder, and waits until it answers.
func (c *cluster) run() {
	c.t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(apiserver, "-dir", c.dir, "-port", fmt.Sprint(c.port))
	cmd.Stdin = in
	if c.process, err = rig.StartCmd(cmd); err != nil {
		c.t.Fatal(err)
	}
	in.Close()
	c.stdin = out
	c.await("the API server", func() bool {
		ca, err := os.ReadFile(filepath.Join(c.dir, "ca.crt"))
		token, err2 := os.ReadFile(filepath.Join(c.dir, "admin.token"))
		if err != nil || err2 != nil {
			return false
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca)
		c.token, c.client = string(token), &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
		status, _ := c.do("GET", "/readyz", nil)
		return status == http.StatusOK
	})
}

// kill ends the API server by SIGKILL.
func (c *cluster) kill() {
	c.process.Kill()
	c.stdin.Close()
}

// await polls until a condition is true.
func (c *cluster) await(what string, is func() bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := rig.Poll(ctx, what, func() (bool, error) { return is(), nil }); err != nil {
		c.t.Fatal(err)
	}
}

// do makes a request as the administrator, and returns the status, 0 without a response.
func (c *cluster) do(method, path string, body []byte, contentType ...string) (int, []byte) {
	return c.doAs(c.token, method, path, body, contentType...)
}

func (c *cluster) doAs(token, method, path string, body []byte, contentType ...string) (int, []byte) {
	r, err := http.NewRequest(method, c.url+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", append(contentType, "application/json")[0])
	resp, err := c.client.Do(r)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, data
}

// places are the paths of the objects of each kind.
var places = map[string]string{
	"CustomResourceDefinition": "customresourcedefinitions", "Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "Role": "roles", "RoleBinding": "rolebindings",
	"VirtualMCPServer": "virtualmcpservers", "MCPServerEntry": "mcpserverentries", "VirtualMCPScriptedToolDefinition": "virtualmcpscriptedtooldefinitions",
	"Secret": "secrets", "ConfigMap": "configmaps",
}

// place is the path of an object.
func place(apiVersion, kind, name string) string {
	path := "/apis/" + apiVersion
	if apiVersion == "v1" {
		path = "/api/v1"
	}
	if kind != "CustomResourceDefinition" && kind != "Namespace" {
		path += "/namespaces/team"
	}
	return path + "/" + places[kind] + "/" + name
}

// apply applies manifests as kubectl apply --server-side does.
func (c *cluster) apply(manifests string) {
	c.t.Helper()
	for _, text := range strings.Split(manifests, "\n---\n") {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			c.t.Fatal(err)
		}
		var o struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
		}
		if err := json.Unmarshal(data, &o); err != nil || o.Kind == "" {
			continue // comments
		}
		path := place(o.APIVersion, o.Kind, o.Metadata.Name) + "?fieldManager=team&force=true"
		var status int
		var body []byte
		c.await("the API server to know "+o.Kind, func() bool { // a moment after its definition is established
			status, body = c.do("PATCH", path, data, "application/apply-patch+yaml")
			return status != http.StatusNotFound || !strings.Contains(string(body), "404 page not found")
		})
		if status != http.StatusOK && status != http.StatusCreated {
			c.t.Fatalf("apply %s %s: %d %s", o.Kind, o.Metadata.Name, status, body)
		}
	}
}

func (c *cluster) applyFiles(patterns ...string) {
	c.t.Helper()
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			c.t.Fatalf("%s: no file (%v)", pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				c.t.Fatal(err)
			}
			c.apply(string(text))
		}
	}
}

// conditionOf is a condition of an object.
type conditionOf struct{ Type, Status, Reason, Message string }

// object has the fields of vmcp's objects that tests use.
type object struct {
	Metadata struct {
		Name, ResourceVersion string
		Generation            int
		ManagedFields         []struct{ Manager, Operation, Subresource string }
	}
	Status struct {
		AppliedGeneration int
		Lease             string
		Conditions        []conditionOf
		Servers           []struct {
			Name       string
			Conditions []conditionOf
		}
	}
}

func (c *cluster) get(kind, name string) (o object) {
	c.t.Helper()
	status, body := c.do("GET", place("vmcp.dev/v1alpha1", kind, name), nil)
	if err := json.Unmarshal(body, &o); err != nil || status != http.StatusOK {
		c.t.Fatalf("get %s %s: %d %s", kind, name, status, body)
	}
	return o
}

// condition returns "STATUS REASON" of a condition, and its message.
func (c *cluster) condition(kind, name, of string) (is, message string) {
	c.t.Helper()
	for _, x := range c.get(kind, name).Status.Conditions {
		if x.Type == of {
			return x.Status + " " + x.Reason, x.Message
		}
	}
	return "", ""
}

// inServers is the Ready condition of a shared object in each server: "a True Served, …".
func (c *cluster) inServers(kind, name string) string {
	c.t.Helper()
	var all []string
	for _, s := range c.get(kind, name).Status.Servers {
		for _, x := range s.Conditions {
			if x.Type == "Ready" {
				all = append(all, s.Name+" "+x.Status+" "+x.Reason)
			}
		}
	}
	slices.Sort(all) // the API server keeps the order in which they were written
	return strings.Join(all, ", ")
}

func (c *cluster) awaitCondition(kind, name, of, want string) {
	c.t.Helper()
	c.await(kind+" "+name+" "+of+" "+want, func() bool { is, _ := c.condition(kind, name, of); return is == want })
}

// account is a token of the ServiceAccount of deploy/base.
func (c *cluster) account() string {
	c.t.Helper()
	status, body := c.do("POST", place("v1", "ServiceAccount", "vmcp/token"), []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":7200}}`))
	var o struct{ Status struct{ Token string } }
	if err := json.Unmarshal(body, &o); err != nil || status != http.StatusCreated {
		c.t.Fatalf("token: %d %s", status, body)
	}
	return o.Status.Token
}

// replica is a vmcp serve --kubernetes.
type replica struct {
	addr    string
	log     *text
	process *rig.Process
}

// text is the output of a process.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (c *cluster) serve() *replica {
	c.t.Helper()
	return c.serveWith(filepath.Join(c.t.TempDir(), "kubeconfig"), c.account())
}

// serveOnly starts a process with --server.
func (c *cluster) serveOnly(server string) *replica {
	c.t.Helper()
	return c.serveWith(filepath.Join(c.t.TempDir(), "kubeconfig"), c.account(), "--server", server)
}

// serveWith starts a replica with a token, and further arguments.
func (c *cluster) serveWith(file, token string, arguments ...string) *replica {
	c.t.Helper()
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]\nusers: [{name: u, user: {token: %q}}]\ncontexts: [{name: c, context: {cluster: c, user: u, namespace: team}}]\n",
		c.url, filepath.Join(c.dir, "ca.crt"), token)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		c.t.Fatal(err)
	}
	r := &replica{log: &text{}}
	var err error
	r.process, r.addr, err = rig.ServeWith(c.t.Context(), r.log, binary, append([]string{"--kubernetes", "--kubeconfig", file, "--log-level", "debug"}, arguments...))
	if err != nil {
		c.t.Fatalf("%v\n%s", err, r.log)
	}
	c.t.Cleanup(func() { _ = r.process.Stop() })
	return r
}

func (r *replica) page(path string) (int, string) {
	resp, err := http.Get("http://" + r.addr + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data)
}

func (c *cluster) awaitPage(r *replica, path string, want int) {
	c.t.Helper()
	c.await(fmt.Sprintf("%s to be %d", path, want), func() bool { status, _ := r.page(path); return status == want })
}

// ask makes a request of MCP, without a session.
func (r *replica) ask(method, name string) (int, string) { return r.askAt("/mcp", method, name) }

func (r *replica) askAt(path, method, name string) (int, string) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"name":%q,"arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, method, name)
	req, err := http.NewRequest("POST", "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name} {
		req.Header.Set(key, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data)
}

// call calls a tool; ok reports whether it succeeded.
func (r *replica) call(name string) (text string, ok bool) {
	status, body := r.ask("tools/call", name)
	return body, status == http.StatusOK && !strings.Contains(body, `"isError":true`) && strings.Contains(body, `"result"`)
}

// serveAway starts a replica while there is no API server: a token of the ServiceAccount cannot be requested, so it uses the
// administrator's.
func (c *cluster) serveAway() *replica {
	c.t.Helper()
	return c.serveWith(filepath.Join(c.t.TempDir(), "kubeconfig"), c.token)
}
