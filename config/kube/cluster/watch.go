package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	streams "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/vmcp-dev/vmcp/config/kube/object"
)

// between is the backoff between failed requests. An API server that was unreachable is retried within its cap.
var between = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.3, Steps: 20, Cap: 10 * time.Second}

// resource is what one reflector watches: all objects of a kind in the namespace, or one of them.
type resource struct {
	schema.GroupVersionResource
	kind string
	name string // of the one object; "" for all of the namespace
}

func (r resource) String() string {
	if r.name != "" {
		return r.kind + " " + r.name
	}
	return r.Resource + "." + r.Group
}

// A watch is the reflector of one resource. All but of and stop is guarded by the Source's mu.
type watch struct {
	of     resource
	stop   context.CancelFunc
	synced bool  // it was listed
	tried  bool  // it was listed, or a request failed
	err    error // of the last request; nil if it succeeded
}

// A set is the decoded objects of one kind. Reflectors fill it; the Source's mu guards it.
type set[T any] struct {
	source *Source
	decode func([]byte) (*T, error)
	// whole: a change of an object's status counts as a change, too.
	whole   bool
	objects map[string]*held[T]
}

// held is an object of a set.
type held[T any] struct {
	value      *T // never changed
	uid        string
	generation int64 // 0 if the kind has none
	version    string
	status     object.Status
}

// snapshot returns the objects by name.
func (s *set[T]) snapshot() map[string]*T {
	all := make(map[string]*T, len(s.objects))
	for name, h := range s.objects {
		all[name] = h.value
	}
	return all
}

// put adds or replaces an object from a list or a watch event. It returns false if nothing but its status has changed (see
// whole). An object that cannot be decoded is removed. mu is held.
func (s *set[T]) put(o any) bool {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	now := &held[T]{uid: string(u.GetUID()), generation: u.GetGeneration(), version: u.GetResourceVersion(), status: statusOf(u)}
	old := s.objects[u.GetName()]
	if old != nil && old.uid == now.uid {
		if old.version == now.version {
			return false // a repeated event
		}
		if now.generation != 0 && old.generation == now.generation && !s.whole {
			now.value = old.value
			s.objects[u.GetName()] = now
			s.source.writer.changed()
			return false
		}
	}
	u.SetManagedFields(nil)
	data, err := u.MarshalJSON()
	if err == nil {
		now.value, err = s.decode(data)
	}
	if err != nil {
		s.source.log.Warn("an object cannot be read", "kind", u.GetKind(), "name", u.GetName(), "err", err)
		return s.remove(u.GetName())
	}
	s.objects[u.GetName()] = now
	return true
}

// remove removes an object; false if there is none. mu is held.
func (s *set[T]) remove(name string) bool {
	_, is := s.objects[name]
	delete(s.objects, name)
	return is
}

// statusOf decodes the status of an object; the zero Status if it has another form.
func statusOf(u *unstructured.Unstructured) (s object.Status) {
	raw, ok := u.Object["status"].(map[string]any)
	if !ok {
		return s
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &s); err != nil {
		return object.Status{}
	}
	return s
}

// filler is the cache.ReflectorStore of a watch: it fills a set.
type filler[T any] struct {
	into *set[T]
	of   *watch
}

// Add implements cache.ReflectorStore.
func (f *filler[T]) Add(o any) error {
	f.into.source.mu.Lock()
	defer f.into.source.mu.Unlock()
	if f.into.put(o) {
		f.into.source.noteChange()
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (f *filler[T]) Update(o any) error { return f.Add(o) }

// Delete implements cache.ReflectorStore.
func (f *filler[T]) Delete(o any) error {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	f.into.source.mu.Lock()
	defer f.into.source.mu.Unlock()
	if f.into.remove(u.GetName()) {
		f.into.source.noteChange()
	}
	return nil
}

// Replace implements cache.ReflectorStore: objects that are not in the list are removed.
func (f *filler[T]) Replace(list []any, _ string) error {
	s := f.into.source
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[string]bool{}
	for _, o := range list {
		if u, ok := o.(*unstructured.Unstructured); ok {
			there[u.GetName()] = true
		}
		f.into.put(o)
	}
	for name := range f.into.objects {
		if !there[name] && (f.of.of.name == "" || f.of.of.name == name) {
			f.into.remove(name)
		}
	}
	f.of.synced, f.of.tried, f.of.err = true, true, nil
	s.synced = time.Now()
	s.noteChange()
	return nil
}

// Resync implements cache.ReflectorStore.
func (f *filler[T]) Resync() error { return nil }

// follow starts a reflector that fills a set with a resource until ctx ends or the watch is stopped. mu is held.
func follow[T any](ctx context.Context, s *Source, r resource, into *set[T]) *watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{of: r, stop: cancel}
	back := between
	if r.Group == object.ToolHiveGroup {
		back.Cap = time.Minute // ToolHive may not be installed
	}
	example := &unstructured.Unstructured{}
	example.SetGroupVersionKind(r.GroupVersion().WithKind(r.kind))
	reflector := cache.NewReflectorWithOptions(s.lister(w), example, &filler[T]{into, w}, cache.ReflectorOptions{Name: "vmcp", Backoff: &back})
	s.work.Go(func() { reflector.RunWithContext(ctx) })
	return w
}

// lister makes the list and watch requests of a watch and records their outcome.
func (s *Source) lister(w *watch) cache.ListerWatcher {
	at := s.client.in(w.of.GroupVersionResource)
	only := func(o *metav1.ListOptions) {
		if w.of.name != "" {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", w.of.name).String()
		}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			only(&o)
			list, err := at.List(ctx, o)
			if err == nil && list.GetResourceVersion() == "" {
				err = errors.New("the API server answered a list without a resourceVersion") // not a complete list
			}
			s.noteRequest(ctx, w, err)
			if err != nil {
				return nil, err
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (streams.Interface, error) {
			only(&o)
			stream, err := at.Watch(ctx, o)
			s.noteRequest(ctx, w, err)
			return stream, err
		},
	}
}

// noteRequest records the outcome of a request of a watch, and logs when it changes.
func (s *Source) noteRequest(ctx context.Context, w *watch, err error) {
	if ctx.Err() != nil {
		return
	}
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return // the next request is a list
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := w.err
	w.err = err
	answers := err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown
	switch {
	case !answers && !s.away: // once for all watches
		s.log.Warn("the API server does not answer, the last known objects stay in force", "err", err)
	case answers && s.away:
		s.log.Info("the API server answers again")
	case answers && err != nil && before == nil && (w.of.Group != object.ToolHiveGroup || !apierrors.IsNotFound(err)):
		s.log.Warn("objects cannot be read, the last known ones stay in force", "err", explain(w.of, err))
	}
	s.away = !answers
	if err != nil && !w.tried {
		w.tried = true
		s.noteChange()
	}
}

// explain describes the error of a request to the operator of the cluster. It contains no content of objects.
func explain(r resource, err error) string {
	switch {
	case err == nil:
		return ""
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("the kind %s of %s is not there: apply its CustomResourceDefinition", r.kind, r.Group)
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("%s: list and watch are forbidden: the Role of this ServiceAccount lacks them", r)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("%s: the API server does not accept the credential", r)
	}
	return fmt.Sprintf("%s: %v", r, err)
}
