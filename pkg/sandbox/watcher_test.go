package sandbox

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/agentcube/agentcube/pkg/session"
)

// watched is a running watcher and what it told.
type watched struct {
	*Watcher
	fake *dynamicfake.FakeDynamicClient
	api  API

	mu     sync.Mutex
	events []Event // guarded by mu
}

// startWatching runs a watcher inside a bubble until the test ends.
func startWatching(t *testing.T, version string, seed ...*unstructured.Unstructured) *watched {
	t.Helper()
	api := API{Version: version}
	w := &watched{fake: newFake(api), api: api}
	for _, u := range seed {
		put(t, w.fake, w.resource(u), u)
	}
	w.fake.ClearActions()
	var err error
	w.Watcher, err = NewWatcher(w.fake, api, WatcherOptions{})
	require.NoError(t, err)
	w.OnEvent(func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	require.NoError(t, w.WaitForSync(t.Context()))
	synctest.Wait()
	return w
}

func (w *watched) resource(u *unstructured.Unstructured) schemaResource {
	if u.GetKind() == session.KindSandboxClaim {
		return w.api.Claims()
	}
	return w.api.Sandboxes()
}

// change puts an object and waits until all is quiet.
func (w *watched) change(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	put(t, w.fake, w.resource(u), u)
	synctest.Wait()
}

// take returns the events since the last call.
func (w *watched) take() []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

func (w *watched) sandbox(uid, resourceVersion string) *unstructured.Unstructured {
	return marked(w.api.BuildSandbox(sandboxSpec()), uid, resourceVersion)
}

func isSignalled(signals <-chan struct{}) bool {
	select {
	case <-signals:
		return true
	default:
		return false
	}
}

func TestWatcherFollowsBothKindsOfEachVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []string{V1Alpha1, V1Beta1} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := API{Version: version}
				w := startWatching(t, version, marked(api.BuildSandbox(sandboxSpec()), testUID, "1"))
				assert.True(t, w.HasSynced())
				require.Len(t, w.take(), 1, "the first list is told too")

				_, found := w.Get(claimSpec().Object)
				require.False(t, found)
				w.change(t, withClaimStatus(marked(api.BuildClaim(claimSpec()), "2", "2"), "warm-47spl", []any{"10.0.0.9"}, ready("True", "DependenciesReady", "")))

				events := w.take()
				require.Len(t, events, 1)
				assert.False(t, events[0].Deleted)
				assert.Equal(t, "warm-47spl", events[0].Object.SandboxName)
				got, found := w.Get(claimSpec().Object)
				require.True(t, found)
				assert.Equal(t, events[0].Object, got)
				_, found = w.Get(session.ObjectRef{Kind: "Pod", Namespace: "team", Name: "warm-03ia9k2h"})
				assert.False(t, found)
			})
		})
	}
}

func TestWatcherSelectsByTheSessionLabel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWatching(t, V1Beta1)
		lists, watches := 0, 0
		for _, action := range w.fake.Actions() {
			switch action := action.(type) {
			case clienttesting.ListActionImpl:
				lists++
				assert.Equal(t, LabelSessionID, action.ListOptions.LabelSelector)
			case clienttesting.WatchActionImpl:
				watches++
				assert.Equal(t, LabelSessionID, action.WatchRestrictions.Labels.String())
			}
		}
		assert.Equal(t, 2, lists)
		assert.Equal(t, 2, watches)
	})
}

func TestADeletedObjectIsToldAsItWasLastSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWatching(t, V1Beta1)
		w.change(t, w.sandbox(testUID, "1"))
		w.take()

		remove(t, w.fake, w.api.Sandboxes(), "team", "echo-m7uzauz2")
		synctest.Wait()

		events := w.take()
		require.Len(t, events, 1)
		assert.True(t, events[0].Deleted)
		assert.True(t, events[0].Proof)
		assert.Equal(t, testUID, events[0].Object.Ref.UID)
		assert.Equal(t, testSession, events[0].Object.SessionID)
		_, found := w.Get(sandboxSpec().Object)
		assert.False(t, found)
	})
}

func TestAnUnchangedResourceVersionIsNoEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWatching(t, V1Beta1)
		w.change(t, w.sandbox(testUID, "1"))
		w.take()

		w.change(t, w.sandbox(testUID, "1"))
		assert.Empty(t, w.take())
		w.change(t, w.sandbox(testUID, "2"))
		assert.Len(t, w.take(), 1)
	})
}

func TestWhatTakesAnObjectsPlaceIsToldOfBoth(t *testing.T) {
	t.Parallel()
	const other = "656f1f61-1b20-4619-af7b-1362f96593c1"
	relabelled := func(u *unstructured.Unstructured, id string) *unstructured.Unstructured {
		labels := u.GetLabels()
		labels[LabelSessionID] = id
		if id == "" {
			delete(labels, LabelSessionID)
		}
		u.SetLabels(labels)
		return u
	}
	for sentence, c := range map[string]struct {
		next func(w *watched) *unstructured.Unstructured
		want int
	}{
		"another UID of the same name": {func(w *watched) *unstructured.Unstructured { return w.sandbox("another", "2") }, 2},
		"another session's label":      {func(w *watched) *unstructured.Unstructured { return relabelled(w.sandbox(testUID, "2"), other) }, 2},
		"no session's label":           {func(w *watched) *unstructured.Unstructured { return relabelled(w.sandbox(testUID, "2"), "") }, 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := startWatching(t, V1Beta1)
				w.change(t, w.sandbox(testUID, "1"))
				w.take()
				signals, stop := w.Subscribe(sandboxSpec().Object)
				defer stop()

				w.change(t, c.next(w))

				events := w.take()
				require.Len(t, events, c.want)
				assert.True(t, events[0].Deleted)
				assert.False(t, events[0].Proof)
				assert.Equal(t, testUID, events[0].Object.Ref.UID)
				assert.Equal(t, testSession, events[0].Object.SessionID)
				if c.want == 2 {
					assert.False(t, events[1].Deleted)
					assert.Equal(t, "2", events[1].Object.ResourceVersion)
				}
				assert.True(t, isSignalled(signals))
			})
		})
	}
}

func TestAnObjectWithoutTheLabelIsIgnored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWatching(t, V1Beta1)
		u := w.sandbox(testUID, "1")
		u.SetLabels(nil)
		w.change(t, u)
		u = u.DeepCopy()
		u.SetResourceVersion("2")
		w.change(t, u)
		remove(t, w.fake, w.api.Sandboxes(), "team", "echo-m7uzauz2")
		synctest.Wait()

		assert.Empty(t, w.take())
	})
}

func TestATombstoneIsNoProof(t *testing.T) {
	t.Parallel()
	w, err := NewWatcher(newFake(API{V1Beta1}), API{V1Beta1}, WatcherOptions{})
	require.NoError(t, err)
	var events []Event
	w.OnEvent(func(e Event) { events = append(events, e) })
	last := &cached{Object: Object{Ref: sandboxSpec().Object, SessionID: testSession}}

	w.deleted(cache.DeletedFinalStateUnknown{Key: "team/echo-m7uzauz2", Obj: last})
	require.Equal(t, []Event{{Object: last.Object, Deleted: true}}, events)

	for _, junk := range []any{nil, "text", cache.DeletedFinalStateUnknown{Key: "team/a"}, &unstructured.Unstructured{}} {
		w.deleted(junk)
		w.added(junk)
		w.updated(junk, last)
		w.updated(last, junk)
	}
	assert.Len(t, events, 1, "what is no object of ours is ignored")
}

func TestWhatIsMissingFromALaterListIsNoProof(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := API{Version: V1Beta1}
		f := newFake(api)
		put(t, f, api.Sandboxes(), marked(api.BuildSandbox(sandboxSpec()), testUID, "1"))
		// The first list shows the sandbox; then the watch breaks, and the next
		// list, without a DELETED in between, does not.
		var lists int
		f.PrependReactor("list", "sandboxes", func(clienttesting.Action) (bool, runtime.Object, error) {
			lists++
			if lists == 1 {
				return false, nil, nil
			}
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion("agents.x-k8s.io/v1beta1")
			list.SetKind("SandboxList")
			list.SetResourceVersion("9")
			return true, list, nil
		})
		watches := 0
		f.PrependWatchReactor("sandboxes", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
			watches++
			if watches == 1 {
				return true, nil, errors.New("connection lost")
			}
			return false, nil, nil
		})
		var failures []string
		w, err := NewWatcher(f, api, WatcherOptions{OnError: func(kind string, _ error) { failures = append(failures, kind) }})
		require.NoError(t, err)
		events := make(chan Event, 8)
		w.OnEvent(func(e Event) { events <- e })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()

		assert.False(t, (<-events).Deleted)
		gone := <-events
		assert.True(t, gone.Deleted)
		assert.False(t, gone.Proof)
		assert.Equal(t, testUID, gone.Object.Ref.UID)
		cancel()
		require.NoError(t, <-ended)
		assert.Equal(t, []string{session.KindSandbox}, failures)
	})
}

func TestSubscribersAreSignalledOnceTheCacheHoldsTheChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWatching(t, V1Beta1)
		ref := sandboxSpec().Object
		signals, stop := w.Subscribe(ref)
		defer stop()
		require.False(t, isSignalled(signals))

		seen := make(chan Object, 1)
		go func() {
			<-signals
			got, _ := w.Get(ref)
			seen <- got
		}()
		w.change(t, withStatus(w.sandbox(testUID, "1"), []any{"10.0.0.7"}, ready("True", "DependenciesReady", "")))

		assert.Equal(t, []string{"10.0.0.7"}, (<-seen).Addresses)
	})
}

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWatching(t, V1Beta1)
		ref := sandboxSpec().Object
		ref.UID = testUID // not known to the next subscriber
		one, stopOne := w.Subscribe(ref)
		other, stopOther := w.Subscribe(sandboxSpec().Object)
		defer stopOther()
		sameNameOtherKind, stopKind := w.Subscribe(session.ObjectRef{Kind: session.KindSandboxClaim, Namespace: ref.Namespace, Name: ref.Name})
		defer stopKind()

		w.change(t, w.sandbox(testUID, "1"))
		w.change(t, w.sandbox(testUID, "2"))
		assert.True(t, isSignalled(one), "each subscriber is told")
		assert.True(t, isSignalled(other), "whatever UID it asked for")
		assert.False(t, isSignalled(one), "signals not taken are one")
		assert.False(t, isSignalled(sameNameOtherKind))

		stopOne()
		stopOne()
		remove(t, w.fake, w.api.Sandboxes(), "team", "echo-m7uzauz2")
		synctest.Wait()
		assert.False(t, isSignalled(one), "it has ended")
		assert.True(t, isSignalled(other), "a deletion is a change")

		stopOther()
		stopKind()
		assert.Empty(t, w.waiters.by, "nothing is left behind")
	})
}

func TestWaitForSyncEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w, err := NewWatcher(newFake(API{V1Beta1}), API{V1Beta1}, WatcherOptions{})
	require.NoError(t, err)
	assert.False(t, w.HasSynced())
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	require.ErrorIs(t, w.WaitForSync(ctx), context.DeadlineExceeded)
}

// sizeOf is how many bytes a value reaches, strings and all.
func sizeOf(v reflect.Value) uintptr {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return v.Type().Size()
		}
		return v.Type().Size() + sizeOf(v.Elem())
	case reflect.String:
		return v.Type().Size() + uintptr(v.Len())
	case reflect.Slice:
		size := v.Type().Size()
		for i := range v.Len() {
			size += sizeOf(v.Index(i))
		}
		return size
	case reflect.Map:
		size := v.Type().Size()
		for _, key := range v.MapKeys() {
			size += sizeOf(key) + sizeOf(v.MapIndex(key))
		}
		return size
	case reflect.Struct:
		var size uintptr
		for i := range v.NumField() {
			if v.Type() == reflect.TypeFor[time.Time]() {
				return v.Type().Size()
			}
			size += sizeOf(v.Field(i))
		}
		return size
	default:
		return v.Type().Size()
	}
}

func TestTheCacheKeepsASmallValue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWatching(t, V1Beta1)
		u := withStatus(w.sandbox(testUID, "1"), []any{"10.0.0.7"}, ready("True", "DependenciesReady", "Pod is Ready"))
		set(u, strings.Repeat("x", 100<<10), "spec", "podTemplate", "spec", "big")
		set(u, strings.Repeat("x", 100<<10), "metadata", "annotations", "big")
		set(u, strings.Repeat("x", 100<<10), "metadata", "labels", "big")
		require.Greater(t, sizeOf(reflect.ValueOf(u.Object)), uintptr(300<<10))
		w.change(t, u)

		stored := w.informers[session.KindSandbox].GetIndexer().List()
		require.Len(t, stored, 1)
		assert.Less(t, sizeOf(reflect.ValueOf(stored[0])), uintptr(1<<10))
	})
}

func TestShrinkMayPassTwiceAndNeverFails(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	transform := shrink(api)

	once, err := transform(marked(api.BuildSandbox(sandboxSpec()), testUID, "7"))
	require.NoError(t, err)
	twice, err := transform(once)
	require.NoError(t, err)
	assert.Same(t, once, twice)

	accessor, err := meta.Accessor(once)
	require.NoError(t, err, "the informer finds its metadata")
	assert.Equal(t, "team", accessor.GetNamespace())
	assert.Equal(t, "echo-m7uzauz2", accessor.GetName())
	assert.EqualValues(t, testUID, accessor.GetUID())
	assert.Equal(t, "7", accessor.GetResourceVersion())

	odd, err := transform(marked(api.BuildWarmPool(poolSpec()), testUID, "7"))
	require.NoError(t, err)
	key, err := cache.MetaNamespaceKeyFunc(odd)
	require.NoError(t, err)
	assert.Equal(t, "team/warm", key)
	tombstone := cache.DeletedFinalStateUnknown{Key: "team/warm"}
	passed, err := transform(tombstone)
	require.NoError(t, err)
	assert.Equal(t, tombstone, passed)
}
