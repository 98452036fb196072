package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/agentcube/agentcube/test/cluster"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// within bounds each wait for something to happen in the cluster.
const within = 30 * time.Second

// served is a cluster under test with the API versions of its agent-sandbox.
type served struct {
	*cluster.Cluster
	client  dynamic.Interface
	version string
}

func TestClusterServes(t *testing.T) {
	t.Parallel()
	for release, version := range map[string]string{"v0.5.6": "v1beta1", "v0.4.6": "v1alpha1"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			s := start(t, release, version)
			t.Run("a sandbox that answers until it is deleted, then refuses", s.sandboxRefuses)
			t.Run("a sandbox that goes silent when asked to", s.sandboxGoesSilent)
			t.Run("a claim that is bound to a sandbox of its pool", s.claimIsBound)
			t.Run("what a custom resource owns goes with it", s.ownersCascade)
			t.Run("what is in a namespace goes with it", s.namespaceIsCleared)
			t.Run("a service account may do what its roles say and no more", s.rolesAreEnforced)
			t.Run("both API versions, converted by the webhook", s.versionsConvert)
			t.Run("its programs restart on the same ports", s.programsRestart)
			s.stops(t)
		})
	}
}

func start(t *testing.T, release, version string) *served {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{AgentSandbox: release, Log: t.Output()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	for _, p := range c.Processes() {
		bytes, err := p.Resident()
		if err == nil { // not on every system
			t.Logf("%s holds %d MB", p.Name(), bytes>>20)
		}
	}
	client, err := dynamic.NewForConfig(c.Config())
	require.NoError(t, err)
	return &served{Cluster: c, client: client, version: version}
}

func (s *served) sandboxes() dynamic.ResourceInterface {
	return s.resource("agents.x-k8s.io", s.version, "sandboxes")
}

func (s *served) claims() dynamic.ResourceInterface {
	return s.resource("extensions.agents.x-k8s.io", s.version, "sandboxclaims")
}

func (s *served) resource(group, version, resource string) dynamic.ResourceInterface {
	return s.client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).
		Namespace(metav1.NamespaceDefault)
}

func (s *served) apply(t *testing.T, format string, values ...any) {
	t.Helper()
	require.NoError(t, s.Apply(t.Context(), fmt.Appendf(nil, format, values...)))
}

// sandbox applies a sandbox and returns it once it is ready.
func (s *served) sandbox(t *testing.T, name, annotations string) *unstructured.Unstructured {
	t.Helper()
	s.apply(t, `
apiVersion: agents.x-k8s.io/%s
kind: Sandbox
metadata: {name: %s}
spec:
  podTemplate:
    metadata: {annotations: {%s}}
    spec:
      containers:
      - {name: main, image: any, ports: [{containerPort: 8080}]}
`, s.version, name, annotations)
	return await(t, s.sandboxes(), name, isReady)
}

func (s *served) sandboxRefuses(t *testing.T) {
	sandbox := s.sandbox(t, "refuses", "")
	address := podIP(t, sandbox)
	echo, err := get(t, address, "/some//path?x=%2F")
	require.NoError(t, err)
	assert.Equal(t, "refuses", echo.Pod)
	assert.Equal(t, "/some//path?x=%2F", echo.URI)
	assert.Equal(t, address, s.Node.Address("default", "refuses"))
	assert.Equal(t, 1, s.Node.Requests("default", "refuses"))

	s.removeWithPod(t, "refuses")
	_, err = get(t, address, "/")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func (s *served) sandboxGoesSilent(t *testing.T) {
	address := podIP(t, s.sandbox(t, "silent", node.AtEnd+": silent"))
	_, err := get(t, address, "/")
	require.NoError(t, err)
	s.removeWithPod(t, "silent")
	_, err = get(t, address, "/")
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout(), "%v", err)
}

// removeWithPod deletes a sandbox and returns once its pod is gone.
func (s *served) removeWithPod(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, s.sandboxes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	await(t, s.resource("", "v1", "pods"), name, isGone)
}

func (s *served) claimIsBound(t *testing.T) {
	s.apply(t, `
apiVersion: extensions.agents.x-k8s.io/%[1]s
kind: SandboxTemplate
metadata: {name: pool}
spec: {podTemplate: {spec: {containers: [{name: main, image: any}]}}}
---
apiVersion: extensions.agents.x-k8s.io/%[1]s
kind: SandboxWarmPool
metadata: {name: pool}
spec: {replicas: 1, sandboxTemplateRef: {name: pool}}
`, s.version)
	pools := s.resource("extensions.agents.x-k8s.io", s.version, "sandboxwarmpools")
	await(t, pools, "pool", func(pool *unstructured.Unstructured) bool {
		ready, _, _ := unstructured.NestedInt64(pool.Object, "status", "readyReplicas")
		return ready == 1
	})
	reference := "warmPoolRef: {name: pool}"
	if s.version == "v1alpha1" {
		reference = "sandboxTemplateRef: {name: pool}, warmpool: pool"
	}
	s.apply(t, `
apiVersion: extensions.agents.x-k8s.io/%s
kind: SandboxClaim
metadata: {name: claim}
spec: {%s}
`, s.version, reference)
	claim := await(t, s.claims(), "claim", isReady)
	adopted, _, err := unstructured.NestedString(claim.Object, "status", "sandbox", "name")
	require.NoError(t, err)
	assert.NotEqual(t, "claim", adopted, "a sandbox of the pool, not a cold one")
	echo, err := get(t, podIP(t, claim), "/")
	require.NoError(t, err)
	assert.Equal(t, adopted, echo.Pod)
	require.NoError(t, s.claims().Delete(t.Context(), "claim", metav1.DeleteOptions{}))
	await(t, s.sandboxes(), adopted, isGone)
}

func (s *served) ownersCascade(t *testing.T) {
	owner := s.sandbox(t, "owner", "")
	s.apply(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: owned
  ownerReferences: [{apiVersion: agents.x-k8s.io/%s, kind: Sandbox, name: owner, uid: %s}]
`, s.version, owner.GetUID())
	require.NoError(t, s.sandboxes().Delete(t.Context(), "owner", metav1.DeleteOptions{}))
	await(t, s.resource("", "v1", "configmaps"), "owned", isGone)
}

func (s *served) namespaceIsCleared(t *testing.T) {
	s.apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: short-lived}
---
apiVersion: agents.x-k8s.io/%s
kind: Sandbox
metadata: {name: inside, namespace: short-lived}
spec: {podTemplate: {spec: {containers: [{name: main, image: any}]}}}
`, s.version)
	namespaces := s.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	inside := s.client.Resource(schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: s.version, Resource: "sandboxes"}).
		Namespace("short-lived")
	await(t, inside, "inside", isReady)
	require.NoError(t, namespaces.Delete(t.Context(), "short-lived", metav1.DeleteOptions{}))
	await(t, inside, "inside", isGone)
}

func (s *served) rolesAreEnforced(t *testing.T) {
	s.apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sandbox-reader}
rules: [{apiGroups: [agents.x-k8s.io], resources: [sandboxes], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: sandbox-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sandbox-reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
`)
	path, err := s.ServiceAccountKubeconfig(t.Context(), "default", "reader")
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	reader := &served{client: client, version: s.version}

	_, err = reader.sandboxes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	err = reader.sandboxes().Delete(t.Context(), "any", metav1.DeleteOptions{})
	assert.True(t, apierrors.IsForbidden(err), "%v", err)
	_, err = reader.resource("", "v1", "pods").List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "%v", err)
}

func (s *served) versionsConvert(t *testing.T) {
	old := s.resource("agents.x-k8s.io", "v1alpha1", "sandboxes")
	s.apply(t, `
apiVersion: agents.x-k8s.io/v1alpha1
kind: Sandbox
metadata: {name: old}
spec: {replicas: 0, podTemplate: {spec: {containers: [{name: main, image: any}]}}}
`)
	got, err := old.Get(t.Context(), "old", metav1.GetOptions{})
	require.NoError(t, err)
	replicas, _, err := unstructured.NestedInt64(got.Object, "spec", "replicas")
	require.NoError(t, err)
	assert.Zero(t, replicas)
	if s.version == "v1alpha1" {
		return // the only version there is
	}
	got, err = s.sandboxes().Get(t.Context(), "old", metav1.GetOptions{})
	require.NoError(t, err)
	mode, _, err := unstructured.NestedString(got.Object, "spec", "operatingMode")
	require.NoError(t, err)
	assert.Equal(t, "Suspended", mode)
}

func (s *served) programsRestart(t *testing.T) {
	for _, p := range s.Processes() {
		before := p.PID()
		require.NoError(t, p.Kill())
		require.NoError(t, p.Start(t.Context()), p.Name())
		assert.NotEqual(t, before, p.PID())
	}
	address := podIP(t, s.sandbox(t, "after-restart", ""))
	_, err := get(t, address, "/")
	require.NoError(t, err)
}

func (s *served) stops(t *testing.T) {
	t.Helper()
	address := s.Node.Address("default", "after-restart")
	var pids []int
	for _, p := range s.Processes() {
		pids = append(pids, p.PID())
	}
	began := time.Now()
	require.NoError(t, s.Stop())
	t.Logf("stopped in %s", time.Since(began))
	for _, pid := range pids {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	}
	_, err := os.Stat(s.Dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = get(t, address, "/")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestACancelledStartLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	// Its line comes once etcd is up, just before the API server starts.
	stopThen := writer(func(line []byte) {
		if bytes.Contains(line, []byte("  etcd ")) {
			cancel()
		}
	})
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir, Log: stopThen})
	require.ErrorIs(t, err, context.Canceled)
	assert.Nil(t, c)

	// etcd locks its data as long as it lives.
	data, err := os.Open(filepath.Join(dir, "etcd", "member", "snap", "db"))
	require.NoError(t, err, "etcd was running")
	defer data.Close()
	require.NoError(t, syscall.Flock(int(data.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), "etcd still runs")
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

// await watches an object and returns it once it is as wanted; nil stands for one
// that is gone.
func await(t *testing.T, client dynamic.ResourceInterface, name string, wanted func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	// The watch comes first, so that no change is missed.
	changes, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	require.NoError(t, err)
	defer changes.Stop()
	for {
		object, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			object, err = nil, nil
		}
		require.NoError(t, err)
		if wanted(object) {
			return object
		}
		_, open := <-changes.ResultChan()
		require.True(t, open, "%s was never as wanted: %v", name, object)
	}
}

func isGone(object *unstructured.Unstructured) bool { return object == nil }

// isReady wants both the condition and an address.
func isReady(object *unstructured.Unstructured) bool {
	if object == nil {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	ready := false
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		ready = ready || condition["type"] == "Ready" && condition["status"] == "True"
	}
	return ready && len(podIPs(object)) > 0
}

// podIPs reads the addresses of a Sandbox, or those a claim mirrors.
func podIPs(object *unstructured.Unstructured) []string {
	if ips, found, _ := unstructured.NestedStringSlice(object.Object, "status", "podIPs"); found {
		return ips
	}
	ips, _, _ := unstructured.NestedStringSlice(object.Object, "status", "sandbox", "podIPs")
	return ips
}

func podIP(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	ips := podIPs(object)
	require.Len(t, ips, 1)
	return ips[0]
}

// get asks a pod on a new connection. Two seconds are enough on loopback, also to
// see that a dial hangs.
func get(t *testing.T, address, path string) (node.Echo, error) {
	t.Helper()
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var echo node.Echo
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+":8080"+path, nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	if err != nil {
		return echo, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return echo, errors.New(response.Status)
	}
	err = json.NewDecoder(response.Body).Decode(&echo)
	return echo, err
}
