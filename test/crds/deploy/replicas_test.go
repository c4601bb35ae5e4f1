package deploy

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// TestReplicasExample: the API server accepts the manifests of examples/replicas, a rollout never has fewer replicas than
// before, the termination grace period is that of the configuration, and only replicas reach the peers' port.
func TestReplicasExample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "..", "examples", "replicas", "kubernetes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	o := parse(t, text)
	d := convert[appsv1.Deployment](t, o, "Deployment vmcp")
	pod := d.Spec.Template
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			t.Errorf("restricted: %s: %s", r.ForbiddenReason, r.ForbiddenDetail)
		}
	}
	if n := d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue(); *d.Spec.Replicas != 3 || n != 0 {
		t.Errorf("%d replicas, of which %d may be unavailable in a rollout", *d.Spec.Replicas, n)
	}
	var settings struct {
		Operational struct {
			Shutdown struct{ Delay, DrainTime string }
		}
	}
	if err := yaml.Unmarshal([]byte(convert[corev1.ConfigMap](t, o, "ConfigMap vmcp").Data["vmcp.yaml"]), &settings); err != nil {
		t.Fatal(err)
	}
	delay, _ := time.ParseDuration(settings.Operational.Shutdown.Delay)
	drain, _ := time.ParseDuration(settings.Operational.Shutdown.DrainTime)
	if grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second; delay == 0 || drain == 0 || grace < delay+drain+5*time.Second {
		t.Errorf("the grace period is %v, a shutdown takes %v and %v", grace, delay, drain)
	}
	ports := map[string]int32{}
	for _, p := range pod.Spec.Containers[0].Ports {
		ports[p.Name] = p.ContainerPort
	}
	rules := convert[networkingv1.NetworkPolicy](t, o, "NetworkPolicy vmcp").Spec.Ingress
	for _, rule := range rules {
		for _, p := range rule.Ports {
			if ports[p.Port.StrVal] == 0 {
				t.Errorf("the NetworkPolicy has a port %s, the Pod has %v", p.Port, ports)
			}
			if p.Port.StrVal == "peers" && (len(rule.From) != 1 || rule.From[0].PodSelector.MatchLabels["app.kubernetes.io/name"] != pod.Labels["app.kubernetes.io/name"]) {
				t.Errorf("others than replicas reach the peers' port: %+v", rule.From)
			}
		}
	}
	for _, p := range convert[corev1.Service](t, o, "Service vmcp").Spec.Ports {
		if p.TargetPort.StrVal == "peers" {
			t.Error("the peers' port is on the Service for clients")
		}
	}
	if n := convert[policyv1.PodDisruptionBudget](t, o, "PodDisruptionBudget vmcp").Spec.MaxUnavailable.IntValue(); n != 1 {
		t.Errorf("%d replicas may be evicted at one time", n)
	}
}
