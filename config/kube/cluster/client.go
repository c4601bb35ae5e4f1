// Package cluster is the part of the Kubernetes source that talks to an API server: it watches the objects of one
// namespace, applies the configurations that package resolve makes of them, and writes status and events.
//
//	client, err := cluster.Connect(cluster.Access{Kubeconfig: file}, log)
//	source := cluster.New(client, cluster.Options{Resolver: resolver, Servers: servers, Identity: hostname})
//	source.Run(ctx) // until ctx ends
//
// While the API server does not answer, the servers are still served and requests are retried. No other package
// of this project imports client-go.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// fieldManager owns the status of servers, and of tools and entries that no server uses.
const fieldManager = "vmcp"

// managerOf is the field manager of the status of tools and entries in a server, whichever process writes it. A manager
// per server lets processes write side by side, and take over from each other.
func managerOf(server string) string { return fieldManager + "-" + label(server, longestLabel) }

// podNamespace is the file with the namespace of the pod that this process runs in.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Access selects a cluster and a namespace in it.
type Access struct {
	// Kubeconfig is the path of a file; if empty: the files of Environment, else the pod's ServiceAccount, else ~/.kube/config.
	Kubeconfig string
	// Environment is the value of the variable KUBECONFIG: a list of files.
	Environment string
	// Namespace is the namespace; if empty: the context's, else the pod's, else default.
	Namespace string
	// UserAgent is the User-Agent header of requests.
	UserAgent string
}

// Client makes requests about the objects of one namespace.
type Client struct {
	Namespace string

	all      dynamic.Interface
	requests *http.Client
	log      *slog.Logger
}

// Close closes the idle connections.
func (c *Client) Close() { c.requests.CloseIdleConnections() }

// Connect reads the configuration of a cluster and makes a Client. It makes no request.
func Connect(a Access, log *slog.Logger) (*Client, error) {
	logOfClientGo(log.Handler()) // before client-go logs anything
	cfg, namespace, err := a.load()
	if err != nil {
		return nil, err
	}
	if a.Namespace != "" {
		namespace = a.Namespace
	}
	cfg.QPS = -1 // no limit here: the API server has limits; with client-go's default 500 statuses took minutes
	cfg.UserAgent = a.UserAgent
	cfg.WarningHandler = rest.NoWarnings{}
	requests, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	all, err := dynamic.NewForConfigAndClient(cfg, requests)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	return &Client{Namespace: namespace, all: all, requests: requests, log: log.With("namespace", namespace)}, nil
}

// load reads the client configuration and its namespace.
func (a Access) load() (*rest.Config, string, error) {
	rules := &clientcmd.ClientConfigLoadingRules{}
	switch {
	case a.Kubeconfig != "":
		rules.ExplicitPath = a.Kubeconfig
	case a.Environment != "":
		rules.Precedence = filepath.SplitList(a.Environment)
	default:
		cfg, err := rest.InClusterConfig()
		if err == nil {
			return cfg, ofPod(), nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", fmt.Errorf("kubernetes: the pod's ServiceAccount: %w", err)
		}
		rules.Precedence = []string{clientcmd.RecommendedHomeFile}
	}
	from := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
	cfg, err := from.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", fmt.Errorf("kubernetes: no cluster is configured: name a file with --kubeconfig or $KUBECONFIG, or run in a pod with a ServiceAccount")
	}
	if err != nil {
		return nil, "", fmt.Errorf("kubernetes: %w", err)
	}
	namespace, _, err := from.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("kubernetes: %w", err)
	}
	return cfg, namespace, nil
}

// ofPod reads the namespace of this process's pod; "default" if there is none.
func ofPod() string {
	text, err := os.ReadFile(podNamespace)
	if name := strings.TrimSpace(string(text)); err == nil && name != "" {
		return name
	}
	return metav1.NamespaceDefault
}

// in returns the interface to the objects of a resource in the namespace.
func (c *Client) in(r schema.GroupVersionResource) dynamic.ResourceInterface {
	return c.all.Resource(r).Namespace(c.Namespace)
}

// applyStatus writes the fields of a field manager in the status of an object by server-side apply, and returns the status
// that the object has then. Another status, or another object of the same name, is a conflict.
func (c *Client) applyStatus(ctx context.Context, o target, manager string, status any) (written, error) {
	body, err := free(status)
	if err != nil {
		return written{}, err
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": o.apiVersion(), "kind": o.kind,
		"metadata": map[string]any{"name": o.name, "namespace": c.Namespace, "uid": o.uid, "resourceVersion": o.version},
		"status":   body,
	}}
	done, err := c.in(o.resource).ApplyStatus(ctx, o.name, u, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		return written{}, err
	}
	return written{done.GetResourceVersion(), done.GetGeneration(), statusOf(done)}, nil
}

// target is an object whose status or events are written.
type target struct {
	resource        schema.GroupVersionResource
	kind, name, uid string
	version         string // resourceVersion, on which the write is based
}

func (t target) apiVersion() string { return t.resource.GroupVersion().String() }

// free converts v to untyped JSON; numbers are json.Number.
func free(v any) (map[string]any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	u := map[string]any{}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	if err := d.Decode(&u); err != nil {
		return nil, err
	}
	return u, nil
}

// quiet is the slog.Handler of client-go's own messages: it logs those of level Info and above at level Debug, since a
// Source logs the same failures in its own terms. Messages below Info are dropped: they may hold response bodies with the
// values of Secrets. client-go has one logger per process: it writes to the log of the last call of Connect.
type quiet struct{ attrs []slog.Attr }

var (
	quietTo   atomic.Pointer[slog.Handler]
	quietOnce sync.Once
)

func logOfClientGo(to slog.Handler) {
	quietTo.Store(&to)
	quietOnce.Do(func() { klog.SetSlogLogger(slog.New(quiet{})) })
}

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo && (*quietTo.Load()).Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	to := *quietTo.Load()
	if !to.Enabled(ctx, slog.LevelDebug) { // klog logs errors without calling Enabled
		return nil
	}
	r.Level = slog.LevelDebug
	return to.WithAttrs(q.attrs).Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{slices.Concat(q.attrs, attrs)}
}

// WithGroup implements slog.Handler; client-go has no groups.
func (q quiet) WithGroup(string) slog.Handler { return q }
