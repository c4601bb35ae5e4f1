// Package clustertest provides a Kubernetes API server for tests: list, watch, get, create, update and patch over HTTP, as
// far as package cluster needs them, and failures of them.
package clustertest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// Namespace is the only namespace of an API.
const Namespace = "team"

// API is an API server. Changes by its methods take effect immediately.
type API struct {
	URL string

	server *http.Server
	ended  chan struct{} // closed when the server has ended

	mu       sync.Mutex
	version  int                       // guarded by mu, like all below
	oldest   int                       // watches from an older version are answered 410
	objects  map[string]map[string]any // by resource and name
	changes  []change                  // since the beginning
	changed  chan struct{}             // closed and replaced with every change
	cut      chan struct{}             // closed and replaced when watches are cut
	asked    map[string]int            // requests by verb and resource
	agents   map[string]bool           // User-Agents of requests
	hold     chan struct{}             // lists wait until it is closed; nil: they do not
	refuse   map[string]int            // status by resource
	twice    bool                      // events are sent twice
	bookmark bool                      // a bookmark goes after every event
	streams  bool                      // sendInitialEvents is supported
	owners   map[string]owners         // of the fields of status, by uid
}

type change struct {
	version  int
	kind     string // ADDED, MODIFIED or DELETED
	resource string
	object   map[string]any
}

// plurals are the resources of kinds.
var plurals = map[string]string{
	"VirtualMCPServer": "virtualmcpservers", "MCPServerEntry": "mcpserverentries", "VirtualMCPScriptedToolDefinition": "virtualmcpscriptedtooldefinitions",
	"VirtualMCPCompositeToolDefinition": "virtualmcpcompositetooldefinitions", "ConfigMap": "configmaps", "Secret": "secrets", "Lease": "leases", "Event": "events",
}

// New starts an API server without objects.
func New(t testing.TB) *API {
	a := &API{version: 1, objects: map[string]map[string]any{}, asked: map[string]int{}, agents: map[string]bool{}, refuse: map[string]int{}, owners: map[string]owners{}, changed: make(chan struct{}), cut: make(chan struct{}), streams: true}
	l, err := net.Listen("tcp", "127.0.0.2:0") // where no other test takes the port while it is Away
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0") // only Linux has the other loopback addresses by default
	}
	if err != nil {
		t.Fatal(err)
	}
	a.URL = "http://" + l.Addr().String()
	a.serve(l)
	t.Cleanup(a.Away)
	return a
}

// serve accepts connections until Away.
func (a *API) serve(l net.Listener) {
	a.server, a.ended = &http.Server{Handler: a}, make(chan struct{})
	go func(server *http.Server, ended chan struct{}) {
		defer close(ended)
		_ = server.Serve(l) // until it is closed
	}(a.server, a.ended)
}

// Kubeconfig writes a kubeconfig file for this server.
func (a *API) Kubeconfig(t testing.TB) string {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u, namespace: %s}}]\n", a.URL, Namespace)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Apply creates or changes the objects of manifests.
func (a *API) Apply(manifests string) {
	for _, text := range strings.Split(manifests, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			panic(fmt.Sprintf("%v in %s", err, text)) // a test's own text
		}
		if len(o) > 0 {
			a.Put(o)
		}
	}
}

// Put creates or changes an object.
func (a *API) Put(o map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	resource := plurals[o["kind"].(string)]
	meta := o["metadata"].(map[string]any)
	key := resource + "/" + meta["name"].(string)
	old := a.objects[key]
	meta["namespace"] = Namespace
	if old == nil {
		meta["uid"], meta["creationTimestamp"] = fmt.Sprintf("uid-%d", a.version), fmt.Sprintf("2026-01-01T00:%02d:%02dZ", a.version/60%60, a.version%60)
	} else {
		before := old["metadata"].(map[string]any)
		meta["uid"], meta["creationTimestamp"], meta["generation"] = before["uid"], before["creationTimestamp"], before["generation"]
		if o["status"] == nil && old["status"] != nil {
			o["status"] = old["status"]
		}
	}
	if o["spec"] != nil && resource != "leases" && (old == nil || !reflect.DeepEqual(old["spec"], o["spec"])) {
		generation, _ := meta["generation"].(int64)
		meta["generation"] = generation + 1
	}
	a.store(key, o)
}

// store sets the object of a key, with a new version. mu is held.
func (a *API) store(key string, o map[string]any) {
	kind := "MODIFIED"
	if a.objects[key] == nil {
		kind = "ADDED"
	}
	a.version++
	o["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(a.version)
	a.objects[key] = o
	a.report(kind, key, o)
}

// report reports a change to watches. mu is held.
func (a *API) report(kind, key string, o map[string]any) {
	resource, _, _ := strings.Cut(key, "/")
	a.changes = append(a.changes, change{a.version, kind, resource, clone(o)})
	close(a.changed)
	a.changed = make(chan struct{})
}

// Delete removes an object.
func (a *API) Delete(kind, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := plurals[kind] + "/" + name
	if o := a.objects[key]; o != nil {
		delete(a.objects, key)
		a.version++
		o["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(a.version)
		a.report("DELETED", key, o)
	}
}

// Object returns a copy of an object; nil if there is none.
func (a *API) Object(kind, name string) map[string]any {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.objects[plurals[kind]+"/"+name]; o != nil {
		return clone(o)
	}
	return nil
}

// Objects returns copies of the objects of a kind.
func (a *API) Objects(kind string) (all []map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(a.objects)) {
		if strings.HasPrefix(key, plurals[kind]+"/") {
			all = append(all, clone(a.objects[key]))
		}
	}
	return all
}

// Changed returns a channel that is closed at the next change of any object.
func (a *API) Changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// Asked counts the requests with a verb (list, watch, get, patch, create, update) for a resource.
func (a *API) Asked(verb, resource string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[verb+" "+resource]
}

// Verbs returns the verb and resource of all requests, such as "patch virtualmcpservers".
func (a *API) Verbs() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.asked))
}

// Cut ends all watches.
func (a *API) Cut() { a.set(func() { close(a.cut); a.cut = make(chan struct{}) }) }

// Expire forgets all earlier versions: watches are cut, and answered 410 when they resume.
func (a *API) Expire() { a.set(func() { a.version++; a.oldest = a.version }); a.Cut() }

// Away closes the port and all connections.
func (a *API) Away() {
	_ = a.server.Close() // connections, too
	<-a.ended
}

// Back opens the port again.
func (a *API) Back(t testing.TB) {
	l, err := net.Listen("tcp", strings.TrimPrefix(a.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	a.serve(l)
}

// Refuse answers requests for a resource with an HTTP status; 0 ends this.
func (a *API) Refuse(resource string, status int) { a.set(func() { a.refuse[resource] = status }) }

// HoldLists makes lists wait until the returned function is called.
func (a *API) HoldLists() (release func()) {
	hold := make(chan struct{})
	a.set(func() { a.hold = hold })
	return func() { a.set(func() { a.hold = nil }); close(hold) }
}

// Repeat sends every event twice, followed by a bookmark.
func (a *API) Repeat() { a.set(func() { a.twice, a.bookmark = true, true }) }

// NoStreams refuses sendInitialEvents (streaming lists), as API servers before 1.32 do.
func (a *API) NoStreams() { a.set(func() { a.streams = false }) }

func (a *API) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, path, _ := strings.Cut(r.URL.Path, "/namespaces/"+Namespace+"/")
	resource, name, _ := strings.Cut(path, "/")
	name, sub, _ := strings.Cut(name, "/")
	verb := verbOf(r, name)
	a.mu.Lock()
	a.asked[strings.TrimSuffix(verb+" "+resource+"/"+sub, "/")]++
	refuse, hold := a.refuse[resource], a.hold
	a.mu.Unlock()
	switch {
	case refuse != 0:
		answer(w, refuse, failure(refuse, "refused"))
	case verb == "list":
		if hold != nil {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
		a.list(w, r, resource)
	case verb == "watch":
		a.watch(w, r, resource)
	default:
		a.write(w, r, verb, resource, name)
	}
}

func verbOf(r *http.Request, name string) string {
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") == "true":
		return "watch"
	case r.Method == http.MethodGet && name == "":
		return "list"
	}
	return map[string]string{"GET": "get", "PATCH": "patch", "POST": "create", "PUT": "update", "DELETE": "delete"}[r.Method]
}

// wanted reports whether a request's field selector selects an object.
func wanted(r *http.Request, o map[string]any) bool {
	only, is := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	return !is || o["metadata"].(map[string]any)["name"] == only
}

func (a *API) list(w http.ResponseWriter, r *http.Request, resource string) {
	a.mu.Lock()
	items := []any{}
	for _, key := range slices.Sorted(maps.Keys(a.objects)) {
		if o := a.objects[key]; strings.HasPrefix(key, resource+"/") && wanted(r, o) {
			items = append(items, clone(o))
		}
	}
	version := a.version
	a.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": strconv.Itoa(version)}, "items": items})
}

func (a *API) watch(w http.ResponseWriter, r *http.Request, resource string) {
	q := r.URL.Query()
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	initial := q.Get("sendInitialEvents") == "true"
	a.mu.Lock()
	cut, oldest, streams, hold := a.cut, a.oldest, a.streams, a.hold
	a.mu.Unlock()
	if initial && !streams {
		answer(w, http.StatusUnprocessableEntity, failure(http.StatusUnprocessableEntity, "sendInitialEvents is forbidden"))
		return
	}
	if initial && hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	send := func(kind string, o any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": o}) // the client may have disconnected
	}
	if !initial && from < oldest {
		send("ERROR", failure(http.StatusGone, "too old resource version"))
		return
	}
	if initial {
		from = a.sendAll(r, resource, send)
	}
	for {
		a.mu.Lock()
		next, changed, twice, bookmark := a.after(from, resource), a.changed, a.twice, a.bookmark
		from = a.version
		a.mu.Unlock()
		for _, c := range next {
			if !wanted(r, c.object) {
				continue
			}
			if send(c.kind, c.object); twice {
				send(c.kind, c.object)
			}
			if bookmark {
				send("BOOKMARK", mark(c.object, c.version, nil))
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// sendAll sends all objects of a resource, and the bookmark that ends them.
func (a *API) sendAll(r *http.Request, resource string, send func(string, any)) (version int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	example := map[string]any{"apiVersion": "v1", "kind": "Unknown"}
	for _, gvk := range []string{r.URL.Path} {
		if group, rest, ok := strings.Cut(strings.TrimPrefix(gvk, "/apis/"), "/"); ok && strings.HasPrefix(gvk, "/apis/") {
			v, _, _ := strings.Cut(rest, "/")
			example["apiVersion"] = group + "/" + v
		}
	}
	for kind, plural := range plurals {
		if plural == resource {
			example["kind"] = kind
		}
	}
	for key, o := range a.objects {
		if strings.HasPrefix(key, resource+"/") && wanted(r, o) {
			send("ADDED", clone(o))
		}
	}
	send("BOOKMARK", mark(example, a.version, map[string]any{"k8s.io/initial-events-end": "true"}))
	return a.version
}

// mark makes a bookmark.
func mark(like map[string]any, version int, annotations map[string]any) map[string]any {
	return map[string]any{"apiVersion": like["apiVersion"], "kind": like["kind"], "metadata": map[string]any{"resourceVersion": strconv.Itoa(version), "annotations": annotations}}
}

// after returns the changes of a resource after a version. mu is held.
func (a *API) after(version int, resource string) (all []change) {
	for _, c := range a.changes {
		if c.version > version && c.resource == resource {
			all = append(all, c)
		}
	}
	return all
}

// write serves requests for one object.
func (a *API) write(w http.ResponseWriter, r *http.Request, verb, resource, name string) {
	var body map[string]any
	if data, _ := io.ReadAll(r.Body); len(data) > 0 {
		if err := json.Unmarshal(data, &body); err != nil {
			answer(w, http.StatusBadRequest, failure(http.StatusBadRequest, err.Error()))
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	there := a.objects[resource+"/"+name]
	switch {
	case verb == "create":
		meta := body["metadata"].(map[string]any)
		if prefix, _ := meta["generateName"].(string); strings.HasSuffix(prefix, ".") {
			answer(w, http.StatusUnprocessableEntity, failure(http.StatusUnprocessableEntity, "metadata.generateName: must end with an alphanumeric character or -"))
			return
		}
		if meta["name"] == nil {
			meta["name"] = fmt.Sprintf("%v%d", meta["generateName"], a.version)
		}
		if a.objects[resource+"/"+meta["name"].(string)] != nil {
			answer(w, http.StatusConflict, failure(http.StatusConflict, "there already"))
			return
		}
		a.store(resource+"/"+meta["name"].(string), body)
		answer(w, http.StatusCreated, body)
	case there == nil:
		answer(w, http.StatusNotFound, failure(http.StatusNotFound, "no such object"))
	case verb == "get":
		answer(w, http.StatusOK, there)
	case verb == "update":
		if body["metadata"].(map[string]any)["resourceVersion"] != there["metadata"].(map[string]any)["resourceVersion"] {
			answer(w, http.StatusConflict, failure(http.StatusConflict, "another version"))
			return
		}
		a.store(resource+"/"+name, body)
		answer(w, http.StatusOK, body)
	case verb == "patch":
		a.patch(w, r, resource+"/"+name, body)
	}
}

// patch applies the status in a body under the field manager of the request. mu is held.
func (a *API) patch(w http.ResponseWriter, r *http.Request, key string, body map[string]any) {
	there := a.objects[key]
	meta, want := body["metadata"].(map[string]any), there["metadata"].(map[string]any)
	if meta["uid"] != want["uid"] || meta["resourceVersion"] != nil && meta["resourceVersion"] != want["resourceVersion"] {
		answer(w, http.StatusConflict, failure(http.StatusConflict, "another uid or version"))
		return
	}
	uid := want["uid"].(string)
	if a.owners[uid] == nil {
		a.owners[uid] = owners{}
	}
	before, _ := there["status"].(map[string]any)
	status, _ := body["status"].(map[string]any)
	if after := a.owners[uid].apply(r.URL.Query().Get("fieldManager"), before, status); !reflect.DeepEqual(before, after) {
		now := clone(there)
		now["status"] = after
		a.store(key, now)
		there = now
	}
	answer(w, http.StatusOK, there)
}

func failure(code int, message string) map[string]any {
	reason := map[int]string{403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired", 422: "Invalid", 401: "Unauthorized"}[code]
	return map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, "metadata": map[string]any{}}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}

func clone(o map[string]any) map[string]any {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	var c map[string]any
	if err := json.Unmarshal(data, &c); err != nil {
		panic(err)
	}
	if g, ok := c["metadata"].(map[string]any)["generation"].(float64); ok {
		c["metadata"].(map[string]any)["generation"] = int64(g)
	}
	return c
}
