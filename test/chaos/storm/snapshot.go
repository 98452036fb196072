package storm

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/test/chaos/check"
)

var (
	podResource       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	templateResource  = schema.GroupVersionResource{Group: "runtime.agentcube.volcano.sh", Version: "v1alpha1", Resource: "codeinterpreters"}
)

// page of a scan of the store.
const page = 1000

// askers ask the router at a time.
const askers = 8

// snapshot reads both sides, past the proxies.
func (w *World) snapshot(ctx context.Context, m *model) (check.Snapshot, error) {
	var s check.Snapshot
	var err error
	if s.Store, err = w.readStore(ctx); err != nil {
		return s, fmt.Errorf("reading the store: %w", err)
	}
	if s.Cluster, err = w.readCluster(ctx); err != nil {
		return s, fmt.Errorf("reading the cluster: %w", err)
	}
	s.Sessions, s.Strangers = m.expectations(), m.strangerKeys()
	return s, nil
}

func (w *World) readStore(ctx context.Context) (check.Store, error) {
	s := check.Store{Rows: map[string]check.Row{}, Unreadable: map[string]string{}, Members: map[string][]string{}}
	keys := w.redis.Scan(ctx, 0, check.RowPrefix+"*", page).Iterator()
	for keys.Next(ctx) {
		key := keys.Val()
		if key == check.IndexExpiry || key == check.IndexActivity {
			continue
		}
		text, err := w.redis.Get(ctx, key).Result()
		if err != nil {
			continue // removed meanwhile, or an error that the next call shows too
		}
		var row check.Row
		id := strings.TrimPrefix(key, check.RowPrefix)
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			s.Unreadable[id] = err.Error()
			continue
		}
		s.Rows[id] = row
	}
	if err := keys.Err(); err != nil {
		return s, err
	}
	var err error
	for _, index := range check.Indexes {
		members, err := w.redis.ZRange(ctx, index, 0, -1).Result()
		if err != nil {
			return s, err
		}
		s.Members[index] = members
	}
	s.Lists, err = w.readLists(ctx)
	return s, err
}

// readLists reads every list, those of no session too.
func (w *World) readLists(ctx context.Context) (map[string][]string, error) {
	lists := map[string][]string{}
	keys := w.redis.Scan(ctx, 0, check.ListPrefix+"*", page).Iterator()
	for keys.Next(ctx) {
		members, err := w.redis.ZRange(ctx, keys.Val(), 0, -1).Result()
		if err != nil {
			return nil, err
		}
		if len(members) > 0 { // not gone meanwhile
			lists[keys.Val()] = members
		}
	}
	return lists, keys.Err()
}

func (w *World) readCluster(ctx context.Context) (check.Cluster, error) {
	c := check.Cluster{Objects: map[string]check.Object{}, Pods: map[string]check.Pod{}}
	var err error
	if c.Installation, err = w.redis.Get(ctx, "agentcube:installation").Result(); err != nil {
		return c, err
	}
	for kind, resource := range w.kinds() {
		list, err := w.client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return c, err
		}
		for i := range list.Items {
			o := readObject(&list.Items[i])
			c.Objects[check.Key(kind, o.Namespace, o.Name)] = o
		}
	}
	list, err := w.client.Resource(podResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return c, err
	}
	for _, item := range list.Items {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &pod); err != nil {
			return c, err
		}
		c.Pods[pod.Namespace+"/"+pod.Name] = check.Pod{
			UID: string(pod.UID), Address: pod.Status.PodIP,
			Gone: pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded,
		}
	}
	return c, nil
}

// kinds are those of the objects that carry sessions.
func (w *World) kinds() map[string]schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{
		session.KindSandbox: w.api.Sandboxes(), session.KindSandboxClaim: w.api.Claims(),
	}
}

func readObject(u *unstructured.Unstructured) check.Object {
	labels := u.GetLabels()
	o := check.Object{
		Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID()),
		SessionID: labels[sandbox.LabelSessionID], Installation: labels[sandbox.LabelInstallation],
		Deleting: u.GetDeletionTimestamp() != nil, Sandbox: u.GetName(),
		IdleTimeout: u.GetAnnotations()[sandbox.AnnotationIdle],
	}
	end := []string{"spec", "shutdownTime"}
	if o.Kind == session.KindSandboxClaim {
		end = []string{"spec", "lifecycle", "shutdownTime"}
	}
	o.ShutdownTime, _, _ = unstructured.NestedString(u.Object, end...)
	if o.Kind == session.KindSandboxClaim {
		o.Sandbox, _, _ = unstructured.NestedString(u.Object, "status", "sandbox", "name")
	}
	return o
}

// ask asks the router about every session that matters: those that are there,
// and those that ended since the last round.
func (w *World) ask(ctx context.Context, m *model, s *check.Snapshot) {
	var (
		mu    sync.Mutex
		group errgroup.Group
	)
	s.Answers = map[string]check.Answer{}
	group.SetLimit(askers)
	for id, workload := range m.toAsk(s.Store.Rows) {
		group.Go(func() error {
			began := time.Now()
			answer := w.asked(ctx, workload, id)
			m.used(id, began, answer.Status == 200)
			mu.Lock()
			defer mu.Unlock()
			s.Answers[id] = answer
			return nil
		})
	}
	_ = group.Wait() // the goroutines return nil
}

// toAsk are the workloads of the sessions that the router is asked about. One
// that its own time may end at any moment is not: its answer depends on when it
// is asked.
func (m *model) toAsk(rows map[string]check.Row) map[string]session.WorkloadRef {
	m.mu.Lock()
	defer m.mu.Unlock()
	ask := map[string]session.WorkloadRef{}
	for id, k := range m.sessions {
		if k.to.IsZero() && k.workload.Kind != "" && !k.settled {
			ask[id] = k.workload
		}
	}
	for id, row := range rows {
		if k := m.sessions[id]; k == nil || k.to.IsZero() {
			ask[id] = session.WorkloadRef(row.Workload)
		}
	}
	return ask
}
