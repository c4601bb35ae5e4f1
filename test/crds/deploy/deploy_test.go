// Package deploy tests the manifests of deploy/: that the chart and the kustomize base are equivalent, that the
// Pod complies with the Pod security standard restricted, and that the Roles permit no more than necessary.
package deploy

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const root = "../../../deploy"

// objects are manifests by kind and name.
type objects map[string]map[string]any

func parse(t *testing.T, manifests []byte) objects {
	t.Helper()
	found := objects{}
	for _, document := range bytes.Split(manifests, []byte("\n---\n")) {
		o := map[string]any{}
		if err := yaml.UnmarshalStrict(document, &o); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o) == 0 {
			continue
		}
		name := fmt.Sprint(o["kind"], " ", o["metadata"].(map[string]any)["name"])
		if found[name] != nil {
			t.Errorf("two objects are %s", name)
		}
		found[name] = o
	}
	return found
}

// chart renders the chart as release vmcp in a namespace.
func chart(t *testing.T, namespace, values string) objects {
	t.Helper()
	found, err := render(namespace, values)
	if err != nil {
		t.Fatalf("values %q: %v", values, err)
	}
	return parse(t, found)
}

func render(namespace, values string) ([]byte, error) {
	c, err := loader.Load(filepath.Join(root, "chart"))
	if err != nil {
		return nil, err
	}
	v, err := common.ReadValues([]byte(values))
	if err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: "vmcp", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, v, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	e := engine.Engine{Strict: true}
	files, err := e.Render(c, all)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(&out, "\n---\n%s\n", text)
		}
	}
	return out.Bytes(), nil
}

// kustomize builds a folder of deploy, to which an overlay may have been added in memory.
func kustomize(t *testing.T, dir, overlay string) objects {
	t.Helper()
	mem := filesys.MakeFsInMemory()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yaml") || strings.Contains(path, "chart") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		within, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return mem.WriteFile("/deploy/"+within, data)
	})
	if err != nil {
		t.Fatal(err)
	}
	if overlay != "" {
		if err := mem.WriteFile("/deploy/"+dir+"/kustomization.yaml", []byte(overlay)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(mem, "/deploy/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := found.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, manifests)
}

// withoutDefinitions are the objects but the CRDs.
func (o objects) withoutDefinitions() objects {
	rest := objects{}
	for name, v := range o {
		if !strings.HasPrefix(name, "CustomResourceDefinition ") {
			rest[name] = v
		}
	}
	return rest
}

// TestChartIsBase: the chart with its default values, and kustomize's base, are the same objects; with ToolHive's
// Role, too, and in another namespace.
func TestChartIsBase(t *testing.T) {
	if diff := cmp.Diff(kustomize(t, "base", ""), chart(t, "vmcp", "").withoutDefinitions()); diff != "" {
		t.Errorf("defaults (-base +chart):\n%s", diff)
	}
	overlay := kustomize(t, "overlay", "namespace: team-a\nresources: [../base]\ncomponents: [../toolhive]\n")
	if diff := cmp.Diff(overlay, chart(t, "team-a", "toolhive: {enabled: true}").withoutDefinitions()); diff != "" {
		t.Errorf("with ToolHive in namespace team-a (-overlay +chart):\n%s", diff)
	}
	kinds := []string{}
	for name := range overlay {
		kinds = append(kinds, name)
	}
	slices.Sort(kinds)
	want := []string{"Deployment vmcp", "NetworkPolicy vmcp", "PodDisruptionBudget vmcp", "Role vmcp", "Role vmcp-toolhive",
		"RoleBinding vmcp", "RoleBinding vmcp-toolhive", "Service vmcp", "ServiceAccount vmcp"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// TestDefinitions: the chart has the CRDs of deploy/crds, which are kept when it is uninstalled, and so has the kustomize base.
func TestDefinitions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "crds", "*.yaml"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%d CRDs, %v, want 4", len(files), err)
	}
	want := objects{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, o := range parse(t, data) {
			want[name] = o
		}
	}
	all := kustomize(t, ".", "")
	got := chart(t, "vmcp", "")
	for name, o := range want {
		if diff := cmp.Diff(o, all[name]); diff != "" {
			t.Errorf("kustomize build deploy: %s (-want +got):\n%s", name, diff)
		}
		annotations, _ := got[name]["metadata"].(map[string]any)["annotations"].(map[string]any)
		if annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("the chart does not keep %s: annotations %v", name, annotations)
			continue
		}
		delete(annotations, "helm.sh/resource-policy")
		if _, had := o["metadata"].(map[string]any)["annotations"]; !had && len(annotations) == 0 {
			delete(got[name]["metadata"].(map[string]any), "annotations")
		}
		if diff := cmp.Diff(o, got[name]); diff != "" {
			t.Errorf("the chart's %s (-want +got):\n%s", name, diff)
		}
	}
	if got := chart(t, "vmcp", "crds: {enabled: false}"); len(got) != len(got.withoutDefinitions()) {
		t.Error("crds.enabled: false leaves CRDs")
	}
}

func TestLint(t *testing.T) {
	for _, m := range lint.RunAll(filepath.Join(root, "chart"), nil, "vmcp").Messages {
		if !strings.Contains(m.Error(), "icon is recommended") {
			t.Error(m)
		}
	}
}

// convert converts one of objects into a typed object, strictly.
func convert[T any](t *testing.T, o objects, name string) *T {
	t.Helper()
	if o[name] == nil {
		t.Fatalf("there is no %s", name)
	}
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o[name], into, true); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return into
}

// everything are values that enable all options.
const everything = `
allowAnonymous: false
server: ops
hosts: [mcp.example.com]
origins: [https://app.example.com]
replicas: 3
memory: 2Gi
shutdownDelay: 10
drainTime: 60
admin: {tokenSecret: vmcp-admin}
image: {repository: registry.test/vmcp, digest: "sha256:abc", pullSecrets: [registry]}
config: {limits: {runs: 7}}
env: [{name: STORE_URL, valueFrom: {secretKeyRef: {name: store, key: url}}}]
rbac: {secretNames: [github-token], configMapNames: [ops-scripts]}
toolhive: {enabled: true}
podLabels: {team: ops}
tolerations: [{key: gpu, operator: Exists}]
networkPolicy: {from: [{namespaceSelector: {matchLabels: {ingress: "yes"}}}], adminFrom: []}
`

// TestPod: the requirements of the standard restricted, a memory limit for the runtime, and time to drain.
func TestPod(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]objects{"base": kustomize(t, "base", ""), "chart": chart(t, "vmcp", ""), "chart with everything": chart(t, "vmcp", everything)} {
		t.Run(name, func(t *testing.T) {
			d := convert[appsv1.Deployment](t, o, "Deployment vmcp")
			pod := d.Spec.Template
			for _, r := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
				if !r.Allowed {
					t.Errorf("restricted: %s: %s", r.ForbiddenReason, r.ForbiddenDetail)
				}
			}
			c := pod.Spec.Containers[0]
			if s := c.SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
				t.Error("the root file system can be written")
			}
			limit := c.Resources.Limits.Memory().Value()
			if got, want := c.Env[0].Value, fmt.Sprint(limit*9/10); c.Env[0].Name != "GOMEMLIMIT" || got != want {
				t.Errorf("%s is %s, want %s of %d", c.Env[0].Name, got, want, limit)
			}
			grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
			if want := argument(t, c, "--shutdown-delay") + argument(t, c, "--drain-time") + 5*time.Second; grace < want {
				t.Errorf("the grace period is %v, want %v", grace, want)
			}
			if c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/healthz" {
				t.Error("the probes are others")
			}
		})
	}
}

// argument is the value of a flag of a container.
func argument(t *testing.T, c corev1.Container, flag string) time.Duration {
	t.Helper()
	i := slices.Index(c.Args, flag)
	if i < 0 {
		t.Fatalf("no argument %s in %q", flag, c.Args)
	}
	d, err := time.ParseDuration(c.Args[i+1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestArguments: every flag exists in vmcp serve, and anonymous access is allowed only where the values say so.
func TestArguments(t *testing.T) {
	reference, err := os.ReadFile(filepath.Join(root, "..", "docs", "reference", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, serve, ok := strings.Cut(string(reference), "\n## vmcp serve\n")
	if !ok {
		t.Fatal("docs/reference/cli.md has no vmcp serve")
	}
	serve, _, _ = strings.Cut(serve, "\n## ")
	for values, open := range map[string]bool{"": true, everything: false} {
		c := convert[appsv1.Deployment](t, chart(t, "vmcp", values), "Deployment vmcp").Spec.Template.Spec.Containers[0]
		for _, arg := range c.Args {
			if strings.HasPrefix(arg, "--") && !strings.Contains(serve, arg+" ") && !strings.Contains(serve, arg+"\n") {
				t.Errorf("vmcp serve has no %s", arg)
			}
		}
		if got := slices.Contains(c.Args, "--insecure-listen"); got != open {
			t.Errorf("--insecure-listen: %v, want %v", got, open)
		}
	}
}

// permitted lists what a Role permits: a line for a verb on a resource.
func permitted(t *testing.T, o objects, name string) (lines []string) {
	t.Helper()
	for _, rule := range convert[rbacv1.Role](t, o, name).Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				line := verb + " " + rule.APIGroups[0] + "/" + resource
				if len(rule.APIGroups) != 1 || len(rule.NonResourceURLs) > 0 || strings.Contains(line, "*") {
					t.Errorf("a rule is wider than one resource: %v", rule)
				}
				if len(rule.ResourceNames) > 0 {
					line += " " + strings.Join(rule.ResourceNames, ",")
				}
				lines = append(lines, line)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// on lists verbs on resources.
func on(verbs, resources []string, names string) (lines []string) {
	for _, verb := range verbs {
		for _, resource := range resources {
			lines = append(lines, strings.TrimSpace(verb+" "+resource+" "+names))
		}
	}
	return lines
}

// TestRoles: the permissions are exactly those listed here.
func TestRoles(t *testing.T) {
	read := []string{"get", "list", "watch"}
	ours := []string{"vmcp.dev/mcpserverentries", "vmcp.dev/virtualmcpcompositetooldefinitions", "vmcp.dev/virtualmcpscriptedtooldefinitions", "vmcp.dev/virtualmcpservers"}
	statuses := []string{}
	for _, resource := range ours {
		statuses = append(statuses, resource+"/status")
	}
	always := slices.Concat(on(read, ours, ""), on([]string{"patch"}, statuses, ""), on([]string{"create"}, []string{"events.k8s.io/events", "coordination.k8s.io/leases"}, ""))
	leases := []string{"coordination.k8s.io/leases"}
	theirs := []string{}
	for _, resource := range []string{"mcpgroups", "mcpoidcconfigs", "mcpremoteproxies", "mcpserverentries", "mcpservers", "mcptoolconfigs", "virtualmcpcompositetooldefinitions", "virtualmcpservers"} {
		theirs = append(theirs, "toolhive.stacklok.dev/"+resource)
	}
	named := slices.Concat(always, on([]string{"get", "update"}, leases, "vmcp-status-ops"), on(read, []string{"/configmaps"}, "ops-scripts"), on(read, []string{"/secrets"}, "github-token"))
	for _, tt := range []struct {
		name, role string
		in         objects
		want       []string
	}{
		{"base", "Role vmcp", kustomize(t, "base", ""), slices.Concat(always, on([]string{"get"}, leases, ""), on([]string{"update"}, leases, "vmcp-status"), on(read, []string{"/configmaps", "/secrets"}, ""))},
		{"names", "Role vmcp", chart(t, "vmcp", everything), named},
		{"ToolHive", "Role vmcp-toolhive", chart(t, "vmcp", everything), on(read, theirs, "")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, permitted(t, tt.in, tt.role)); diff != "" {
				t.Errorf("permissions (-want +got):\n%s", diff)
			}
			for name := range tt.in {
				if strings.HasPrefix(name, "Cluster") {
					t.Errorf("%s is of the whole cluster", name)
				}
			}
		})
	}
}

// TestLeaseOfAServer: the Role has the name that vmcp gives the lease of the server.
func TestLeaseOfAServer(t *testing.T) {
	long := strings.Repeat("a", 51)
	for server, want := range map[string]string{ // as in TestLeaseNames of config
		"ops": "vmcp-status-ops", long: "vmcp-status-" + long, long + "a": "vmcp-status-" + long[:42] + "-6c1b3dc7", "team.ops": "vmcp-status-team-ops-fd71a3f2",
		strings.Repeat("a.", 126) + "b": "vmcp-status-" + strings.Repeat("a-", 20) + "a-9182ce02",
	} {
		if got := permitted(t, chart(t, "vmcp", "server: "+server), "Role vmcp"); !slices.Contains(got, "update coordination.k8s.io/leases "+want) {
			t.Errorf("server %s: no update of %s in %q", server, want, got)
		}
	}
}

// TestValues: the effect of single values of the chart.
func TestValues(t *testing.T) {
	o := chart(t, "vmcp", everything)
	c := convert[appsv1.Deployment](t, o, "Deployment vmcp").Spec.Template.Spec.Containers[0]
	if c.Image != "registry.test/vmcp@sha256:abc" || !slices.Contains(c.Args, "mcp.example.com") || !slices.Contains(c.Args, "ops") {
		t.Errorf("image %s, arguments %q", c.Image, c.Args)
	}
	settings := convert[corev1.ConfigMap](t, o, "ConfigMap vmcp").Data["vmcp.yaml"]
	want := "admin:\n  listen: :4484\n  tokenFile: /etc/vmcp/admin/token\nlimits:\n  runs: 7"
	if strings.TrimSpace(settings) != want {
		t.Errorf("vmcp.yaml is\n%s\nwant\n%s", settings, want)
	}
	for _, port := range convert[corev1.Service](t, o, "Service vmcp").Spec.Ports {
		if port.Name == "admin" {
			t.Error("the admin port is on the Service of the endpoint")
		}
	}
	if port := convert[corev1.Service](t, o, "Service vmcp-admin").Spec.Ports[0]; port.Port != 4484 {
		t.Errorf("the admin port is %d", port.Port)
	}
	other := chart(t, "vmcp", "name: other")
	for name := range other.withoutDefinitions() {
		if !strings.HasSuffix(name, " other") {
			t.Errorf("with name other there is %s", name)
		}
	}
	for values, want := range map[string]string{
		"memory: 512M":  `memory: want a whole number of Mi or Gi, such as 512Mi, have "512M"`,
		"memory: 0.5Gi": `memory: want a whole number of Mi or Gi, such as 512Mi, have "0.5Gi"`,
	} {
		if _, err := render("vmcp", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("values %q: %v, want %s", values, err, want)
		}
	}
}
