package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

var (
	agentSandboxAPI = sandbox.API{Version: sandbox.V1Alpha1}
	runtimes        = resources[session.KindAgentRuntime]
	interpreters    = resources[session.KindCodeInterpreter]
	templates       = agentSandboxAPI.Templates()
	pools           = agentSandboxAPI.WarmPools()
)

// fakeCluster is the dynamic fake client with what it lacks: resource versions
// and generations, and status writes that fail on a stale one.
type fakeCluster struct {
	*fake.FakeDynamicClient
	*fakeDiscovery
	version      atomic.Int64
	statusWrites atomic.Int64
}

func newCluster(t *testing.T, objects ...map[string]any) *fakeCluster {
	t.Helper()
	c := &fakeCluster{
		FakeDynamicClient: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{
				runtimes: "AgentRuntimeList", interpreters: "CodeInterpreterList",
				templates: "SandboxTemplateList", pools: "SandboxWarmPoolList",
			}),
		fakeDiscovery: &fakeDiscovery{served: map[string]bool{}},
	}
	c.serve(runtimes, interpreters)
	c.PrependReactor("patch", interpreters.Resource, c.patchStatus)
	for _, object := range objects {
		c.apply(t, object)
	}
	return c
}

func resourceOf(object map[string]any) schema.GroupVersionResource {
	switch object["kind"] {
	case session.KindAgentRuntime:
		return runtimes
	case session.KindCodeInterpreter:
		return interpreters
	case "SandboxTemplate":
		return templates
	default:
		return pools
	}
}

// apply creates the object or replaces the one that is there, as a change of
// its spec by a user.
func (c *fakeCluster) apply(t *testing.T, object map[string]any) {
	t.Helper()
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
	version := c.version.Add(1)
	u.SetResourceVersion(strconv.FormatInt(version, 10))
	u.SetGeneration(version)
	c.put(t, u)
}

// put stores u as it is.
func (c *fakeCluster) put(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	resource := resourceOf(u.Object)
	err := c.Tracker().Update(resource, u, u.GetNamespace())
	if apierrors.IsNotFound(err) {
		err = c.Tracker().Create(resource, u, u.GetNamespace())
	}
	require.NoError(t, err)
}

// setStatus is what a controller does to warm: the generation stays.
func (c *fakeCluster) setStatus(t *testing.T, resource schema.GroupVersionResource, status map[string]any) {
	t.Helper()
	u := c.object(t, resource, "warm")
	u.Object["status"] = status
	u.SetResourceVersion(strconv.FormatInt(c.version.Add(1), 10))
	c.put(t, u)
}

func (c *fakeCluster) object(t *testing.T, resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	t.Helper()
	obj, err := c.Tracker().Get(resource, "default", name)
	require.NoError(t, err)
	return obj.(*unstructured.Unstructured).DeepCopy()
}

// exists reports whether warm, the one with a pool, has such an object.
func (c *fakeCluster) exists(resource schema.GroupVersionResource) bool {
	_, err := c.Tracker().Get(resource, "default", "warm")
	return err == nil
}

func (c *fakeCluster) remove(t *testing.T, resource schema.GroupVersionResource, name string) {
	t.Helper()
	require.NoError(t, c.Tracker().Delete(resource, "default", name))
}

func (c *fakeCluster) patchStatus(action clienttesting.Action) (bool, runtime.Object, error) {
	patch := action.(clienttesting.PatchAction)
	var body struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Status map[string]any `json:"status"`
	}
	if action.GetSubresource() != "status" || json.Unmarshal(patch.GetPatch(), &body) != nil {
		return true, nil, errors.New("only the status may be written")
	}
	obj, err := c.Tracker().Get(interpreters, patch.GetNamespace(), patch.GetName())
	if err != nil {
		return true, nil, err
	}
	u := obj.(*unstructured.Unstructured).DeepCopy()
	if u.GetResourceVersion() != body.Metadata.ResourceVersion {
		return true, nil, apierrors.NewConflict(interpreters.GroupResource(), patch.GetName(), errors.New("stale"))
	}
	status, _ := u.Object["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
	}
	maps.Copy(status, body.Status)
	u.Object["status"] = normal(status)
	u.SetResourceVersion(strconv.FormatInt(c.version.Add(1), 10))
	c.statusWrites.Add(1)
	return true, u, c.Tracker().Update(interpreters, u, patch.GetNamespace())
}

// normal has the types that a client decodes: int64, not float64.
func normal(object map[string]any) map[string]any {
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "X", "object": object})
	if err != nil {
		panic(err)
	}
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(data); err != nil {
		panic(err)
	}
	return u.Object["object"].(map[string]any)
}

// count is how often the client was asked so.
func (c *fakeCluster) count(verb string, resource schema.GroupVersionResource) int {
	n := 0
	for _, action := range c.Actions() {
		if action.GetVerb() == verb && action.GetResource() == resource {
			n++
		}
	}
	return n
}

// fail makes calls return the error, until it is told to stop.
func (c *fakeCluster) fail(verb, resource string, err error) (stop func()) {
	var over atomic.Bool
	c.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return !over.Load(), nil, err
	})
	return func() { over.Store(true) }
}

// fakeDiscovery serves what it is told to.
type fakeDiscovery struct {
	mu     sync.Mutex
	served map[string]bool
	err    error
	asked  int
}

func (d *fakeDiscovery) serve(resources ...schema.GroupVersionResource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, resource := range resources {
		d.served[resource.String()] = true
	}
}

func (d *fakeDiscovery) withdraw(resource schema.GroupVersionResource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.served, resource.String())
}

func (d *fakeDiscovery) questions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

func (d *fakeDiscovery) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if d.err != nil {
		return nil, d.err
	}
	list := &metav1.APIResourceList{GroupVersion: groupVersion}
	for _, resource := range resources {
		if d.served[resource.String()] {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: resource.Resource})
		}
	}
	if len(list.APIResources) == 0 {
		return nil, notServed(groupVersion)
	}
	return list, nil
}

// notServed is what an API server answers for a path it does not know.
func notServed(what string) error {
	return apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: what}, "", "404 page not found", 0, true)
}

func newLister(c *fakeCluster) *Lister {
	return NewLister(clock.RealClock{}, c, c, zap.NewNop())
}

func agentRuntimeObject(spec map[string]any) map[string]any {
	return object(session.KindAgentRuntime, "echo", spec)
}

func interpreterObject(name string, spec map[string]any) map[string]any {
	return object(session.KindCodeInterpreter, name, spec)
}

func object(kind, name string, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "runtime.agentcube.volcano.sh/v1alpha1",
		"kind":       kind,
		"metadata":   map[string]any{"name": name, "namespace": "default", "uid": "uid-of-" + name},
		"spec":       spec,
	}
}

// echoRuntime and echoInterpreter are the smallest valid specs.
func echoRuntime() map[string]any {
	return map[string]any{
		"targetPort": []any{map[string]any{"pathPrefix": "/", "port": int64(8080), "protocol": "HTTP"}},
		"podTemplate": map[string]any{
			"spec": map[string]any{"containers": []any{map[string]any{"name": "echo", "image": "echo"}}},
		},
	}
}

func echoInterpreter() map[string]any {
	return map[string]any{"template": map[string]any{"image": "echo"}, "authMode": "none"}
}

func warmInterpreter(size int64) map[string]any {
	spec := echoInterpreter()
	spec["warmPoolSize"] = size
	return spec
}

// set returns the spec with the value at the path.
func set(spec map[string]any, value any, path ...string) map[string]any {
	if err := unstructured.SetNestedField(spec, value, path...); err != nil {
		panic(fmt.Sprint(path, ": ", err))
	}
	return spec
}

// recorded is the object of that kind and workload that a running installation
// made.
func recorded(t *testing.T, kind, workload string) *unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile("testdata/recorded-objects.json")
	require.NoError(t, err)
	var list []json.RawMessage
	require.NoError(t, json.Unmarshal(data, &list))
	for _, item := range list {
		u := &unstructured.Unstructured{}
		require.NoError(t, u.UnmarshalJSON(item))
		name := u.GetLabels()["runtime.agentcube.io/workload-name"]
		if name == "" {
			name = u.GetName()
		}
		if u.GetKind() == kind && name == workload {
			return u
		}
	}
	t.Fatalf("no recorded %s of %s", kind, workload)
	return nil
}
