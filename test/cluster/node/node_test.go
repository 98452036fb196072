package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

// bed is a node on an API server in memory.
type bed struct {
	*Node
	client *fake.Clientset
}

// start runs a node whose pods boot in a millisecond. The API server in memory
// lacks what a real one does on a binding and with a deletion that has time; both
// are added.
func start(t *testing.T) bed {
	t.Helper()
	client := fake.NewClientset()
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding := action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
		object, err := client.Tracker().Get(podResource, action.GetNamespace(), binding.Name)
		if err != nil {
			return true, nil, err
		}
		pod := object.(*corev1.Pod).DeepCopy()
		pod.Spec.NodeName = binding.Target.Name
		return true, binding, client.Tracker().Update(podResource, pod, pod.Namespace)
	})
	n, err := New(clock.RealClock{}, Options{Client: client, BootTime: time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	<-n.Ready()
	return bed{n, client}
}

func (b bed) create(t *testing.T, name string, uid types.UID, annotations map[string]string) {
	t.Helper()
	_, err := b.client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: uid, Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "any"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// await returns the pod once it is as wanted; nil stands for a pod that is gone.
func (b bed) await(t *testing.T, name string, wanted func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// The watch comes first, so that no change is missed.
	changes, err := b.client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	defer changes.Stop()
	for {
		pod, err := b.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			pod, err = nil, nil
		}
		require.NoError(t, err)
		if wanted(pod) {
			return pod
		}
		select {
		case <-changes.ResultChan():
		case <-ctx.Done():
			require.FailNow(t, "the pod never became as wanted", "%+v", pod)
		}
	}
}

// remove deletes a pod as a client does: the API server marks it, the node
// removes it.
func (b bed) remove(t *testing.T, name string) {
	t.Helper()
	pods := b.client.CoreV1().Pods("default")
	pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	_, err = pods.Update(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	b.await(t, name, isNil)
}

func isNil(pod *corev1.Pod) bool { return pod == nil }

func isReady(pod *corev1.Pod) bool {
	return pod != nil && condition(pod, corev1.PodReady) == corev1.ConditionTrue
}

func isNotReady(pod *corev1.Pod) bool {
	return pod != nil && condition(pod, corev1.PodReady) == corev1.ConditionFalse
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod != nil && pod.Status.Phase == phase }
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func get(t *testing.T, address string) error {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+":8080/", nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func TestAPodIsBoundRunsIsReadyAndAnswers(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.create(t, "a", "1", nil)
	pod := b.await(t, "a", isReady)
	assert.Equal(t, DefaultName, pod.Spec.NodeName)
	assert.Equal(t, corev1.PodRunning, pod.Status.Phase)
	assert.Equal(t, []corev1.PodIP{{IP: pod.Status.PodIP}}, pod.Status.PodIPs)
	assert.Equal(t, corev1.ConditionTrue, condition(pod, corev1.ContainersReady))
	require.Len(t, pod.Status.ContainerStatuses, 1)
	assert.True(t, pod.Status.ContainerStatuses[0].Ready)
	assert.Equal(t, pod.Status.PodIP, b.Address("default", "a"))
	require.NoError(t, get(t, pod.Status.PodIP))
	assert.Equal(t, 1, b.Requests("default", "a"))

	// Its address ends before its object does, as with a kubelet.
	atRemoval := make(chan error, 1)
	b.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		_, err := new(net.Dialer).DialContext(t.Context(), "tcp", pod.Status.PodIP+":8080")
		atRemoval <- err
		return false, nil, nil
	})
	b.remove(t, "a")
	require.ErrorIs(t, <-atRemoval, syscall.ECONNREFUSED)
}

func TestTheNodeIsReadyAndWithoutTaint(t *testing.T) {
	t.Parallel()
	b := start(t)
	node, err := b.client.CoreV1().Nodes().Get(t.Context(), DefaultName, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, node.Spec.Taints)
	require.Len(t, node.Status.Conditions, 1)
	assert.Equal(t, corev1.ConditionTrue, node.Status.Conditions[0].Status)
}

func TestAReplacedPodHasAnotherAddressUnlessItAsksForTheSame(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		annotations map[string]string
		same        bool
	}{
		"another by default":        {nil, false},
		"the same when asked":       {map[string]string{SameAddress: "true"}, true},
		"the same, even if silent":  {map[string]string{SameAddress: "true", AtEnd: "silent", SilentFor: "1h"}, true},
		"another while one is mute": {map[string]string{AtEnd: "silent", SilentFor: "1h"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			b.create(t, "a", "1", c.annotations)
			first := b.await(t, "a", isReady).Status.PodIP
			b.remove(t, "a")
			b.create(t, "a", "2", c.annotations)
			second := b.await(t, "a", isReady).Status.PodIP
			assert.Equal(t, c.same, first == second, "%s, %s", first, second)
			require.NoError(t, get(t, second))
			assert.Equal(t, second, b.Address("default", "a"))
		})
	}
}

func TestAPodBehavesAsItsAnnotationsSay(t *testing.T) {
	t.Parallel()
	b := start(t)

	t.Run("never ready, but it answers", func(t *testing.T) {
		t.Parallel()
		b.create(t, "never-ready", "a1", map[string]string{NeverReady: "true"})
		pod := b.await(t, "never-ready", isNotReady)
		assert.Equal(t, corev1.PodRunning, pod.Status.Phase)
		assert.NoError(t, get(t, pod.Status.PodIP))
	})
	t.Run("ready without ever listening", func(t *testing.T) {
		t.Parallel()
		b.create(t, "never-listen", "a2", map[string]string{NeverListen: "true"})
		assert.Error(t, get(t, b.await(t, "never-listen", isReady).Status.PodIP))
	})
	t.Run("ready long before it listens", func(t *testing.T) {
		t.Parallel()
		b.create(t, "late", "a3", map[string]string{ListenDelay: "1h"})
		assert.Error(t, get(t, b.await(t, "late", isReady).Status.PodIP))
	})
	t.Run("failed, with the message", func(t *testing.T) {
		t.Parallel()
		b.create(t, "fail", "a4", map[string]string{Fail: "out of memory"})
		pod := b.await(t, "fail", inPhase(corev1.PodFailed))
		assert.Equal(t, "out of memory", pod.Status.Message)
		assert.Empty(t, pod.Status.PodIP)
		require.Len(t, pod.Status.ContainerStatuses, 1)
		assert.EqualValues(t, 1, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
		b.remove(t, "fail")
	})
	t.Run("succeeded", func(t *testing.T) {
		t.Parallel()
		b.create(t, "exit-0", "a5", map[string]string{Exit: "0"})
		b.await(t, "exit-0", inPhase(corev1.PodSucceeded))
	})
	t.Run("ended with a code", func(t *testing.T) {
		t.Parallel()
		b.create(t, "exit-137", "a6", map[string]string{Exit: "137"})
		pod := b.await(t, "exit-137", inPhase(corev1.PodFailed))
		assert.EqualValues(t, 137, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	})
	t.Run("failed when an annotation is not understood", func(t *testing.T) {
		t.Parallel()
		b.create(t, "typo", "a7", map[string]string{Prefix + "boottime": "1s"})
		assert.Contains(t, b.await(t, "typo", inPhase(corev1.PodFailed)).Status.Message, "node.agentcube.dev/boottime")
	})
	t.Run("deleted before it has booted", func(t *testing.T) {
		t.Parallel()
		b.create(t, "slow", "a8", map[string]string{BootTime: "1h"})
		b.await(t, "slow", func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
		b.remove(t, "slow")
	})
	t.Run("silent at its end", func(t *testing.T) {
		t.Parallel()
		b.create(t, "silent", "a9", map[string]string{AtEnd: "silent"})
		address := b.await(t, "silent", isReady).Status.PodIP
		b.remove(t, "silent")
		assertHangs(t, address+":8080")
	})
}

func TestAnotherNodesPodIsNotTouched(t *testing.T) {
	t.Parallel()
	b := start(t)
	_, err := b.client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: "default", UID: "t"},
		Spec:       corev1.PodSpec{NodeName: "other"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	// Events come in order: once a later pod is ready, the first was seen.
	b.create(t, "ours", "o", nil)
	b.await(t, "ours", isReady)
	assert.Nil(t, b.find("default", "theirs"))
}

func TestTheMethodsChangeAPodThatRuns(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.create(t, "a", "1", nil)
	address := b.await(t, "a", isReady).Status.PodIP

	require.NoError(t, b.SetReady(t.Context(), "default", "a", false))
	pod := b.await(t, "a", isNotReady)
	assert.False(t, pod.Status.ContainerStatuses[0].Ready)
	assert.Equal(t, address, pod.Status.PodIP)
	require.NoError(t, get(t, address), "it goes on answering")
	require.NoError(t, b.SetReady(t.Context(), "default", "a", true))
	b.await(t, "a", isReady)

	require.NoError(t, b.Fail(t.Context(), "default", "a", "killed"))
	pod = b.await(t, "a", inPhase(corev1.PodFailed))
	assert.Equal(t, "killed", pod.Status.Message)
	require.Error(t, get(t, address))
	require.NoError(t, b.SetReady(t.Context(), "default", "a", true), "the status of a failed pod is final")
	pod, err := b.client.CoreV1().Pods("default").Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, corev1.ConditionFalse, condition(pod, corev1.PodReady))

	b.create(t, "b", "2", nil)
	address = b.await(t, "b", isReady).Status.PodIP
	require.NoError(t, b.Silence("default", "b"))
	assertHangs(t, address+":8080")

	b.create(t, "c", "3", nil)
	address = b.await(t, "c", isReady).Status.PodIP
	require.NoError(t, b.Complete(t.Context(), "default", "c"))
	pod = b.await(t, "c", inPhase(corev1.PodSucceeded))
	assert.Zero(t, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	require.Error(t, get(t, address))
}

func TestTheMethodsSayWhenThereIsNoSuchPod(t *testing.T) {
	t.Parallel()
	b := start(t)
	assert.Empty(t, b.Address("default", "none"))
	assert.Zero(t, b.Requests("default", "none"))
	require.ErrorIs(t, b.Silence("default", "none"), errNoAddress)
	require.ErrorIs(t, b.Fail(t.Context(), "default", "none", ""), errNoPod)
	require.ErrorIs(t, b.Complete(t.Context(), "default", "none"), errNoPod)
	require.ErrorIs(t, b.SetReady(t.Context(), "default", "none", true), errNoPod)
}

func TestAnAPIServerThatIsDownForAWhileHoldsUpButLosesNoPod(t *testing.T) {
	t.Parallel()
	b := start(t)
	var failures atomic.Int32
	fails := func(clienttesting.Action) (bool, runtime.Object, error) {
		if failures.Add(1) <= 2 {
			return true, nil, errors.New("connection refused")
		}
		return false, nil, nil
	}
	b.client.PrependReactor("patch", "pods", fails)
	b.create(t, "a", "1", nil)
	b.await(t, "a", isReady)
	assert.EqualValues(t, 3, failures.Load())
}

func TestOnlyWhatIsReadOfAPodIsKept(t *testing.T) {
	t.Parallel()
	kept, err := slim(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "b", UID: "c", ResourceVersion: "1", Labels: map[string]string{"x": "y"},
			Annotations:   map[string]string{BootTime: "1s", "other": "long"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec: corev1.PodSpec{
			NodeName: "n", Volumes: []corev1.Volume{{Name: "v"}},
			Containers: []corev1.Container{{
				Name: "main", Image: "any", Env: []corev1.EnvVar{{Name: "E"}},
				Ports: []corev1.ContainerPort{{ContainerPort: 1}},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Message: "m"},
	})
	require.NoError(t, err)
	assert.Equal(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "b", UID: "c", ResourceVersion: "1", Annotations: map[string]string{BootTime: "1s"},
		},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{
			Name: "main", Image: "any", Ports: []corev1.ContainerPort{{ContainerPort: 1}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}, kept)
}
