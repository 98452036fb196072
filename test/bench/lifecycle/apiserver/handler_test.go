package main

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/test/bench/lifecycle/fleet"
)

const size = 10

// serve starts a server of a small fleet, and returns how to reach it.
func serve(t *testing.T, watchList bool) *rest.Config {
	t.Helper()
	f := fleet.Fleet{Size: size, Created: time.Unix(1_700_000_000, 0), Installation: "here"}
	c := newCluster(f.LastResourceVersion())
	require.NoError(t, c.load(f))
	server := httptest.NewUnstartedServer(newHandler(c, watchList))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections() // watches
		server.Close()
	})
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// The watcher is what the server is for: with a first list of either form, and
// deletions after it.
func TestTheWatcherFollowsTheFleet(t *testing.T) {
	t.Parallel()
	for name, watchList := range map[string]bool{"first list streamed": true, "first list in pages": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := serve(t, watchList)
			client := dynamic.NewForConfigOrDie(config)
			api, err := sandbox.Discover(discovery.NewDiscoveryClientForConfigOrDie(config))
			require.NoError(t, err)
			watcher, err := sandbox.NewWatcher(client, api, sandbox.WatcherOptions{})
			require.NoError(t, err)
			events := make(chan sandbox.Event, 2*size)
			watcher.OnEvent(func(e sandbox.Event) { events <- e })
			go func() { _ = watcher.Run(t.Context()) }()
			seen := map[string]bool{}
			for range size {
				e := <-events
				assert.False(t, e.Deleted)
				seen[e.Object.SessionID] = true
			}
			require.NoError(t, watcher.WaitForSync(t.Context()))
			assert.Len(t, seen, size)

			object, err := api.Parse(fleet.Fleet{Size: size}.Object(3))
			require.NoError(t, err)
			deletes := sandbox.NewClient(client, api, sandbox.ClientOptions{})
			stranger := object.Ref
			stranger.UID = "another"
			require.ErrorIs(t, deletes.Delete(t.Context(), stranger), sandbox.ErrConflict)
			require.NoError(t, deletes.Delete(t.Context(), object.Ref))
			e := <-events
			assert.True(t, e.Deleted && e.Proof)
			assert.Equal(t, object.Ref, e.Object.Ref)
			require.ErrorIs(t, deletes.Delete(t.Context(), object.Ref), sandbox.ErrNotFound)
		})
	}
}

func TestMetadataIsListedInPages(t *testing.T) {
	t.Parallel()
	client := metadata.NewForConfigOrDie(serve(t, true))
	options := metav1.ListOptions{Limit: 2, LabelSelector: sandbox.LabelSessionID}
	var uids []types.UID
	for pages := 1; ; pages++ {
		list, err := client.Resource(sandboxes).List(t.Context(), options)
		require.NoError(t, err)
		for _, o := range list.Items {
			uids = append(uids, o.UID)
			assert.Equal(t, "here", o.Labels[sandbox.LabelInstallation])
		}
		if options.Continue = list.Continue; options.Continue == "" {
			assert.Equal(t, 3, pages)
			break
		}
	}
	assert.Len(t, uids, size/2, "adopted sandboxes bear no label")
}

func TestALeaseIsHeldByWhoeverWroteItLast(t *testing.T) {
	t.Parallel()
	leases := kubernetes.NewForConfigOrDie(serve(t, true)).CoordinationV1().Leases("default")
	_, err := leases.Get(t.Context(), "lease", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	first, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lease"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	holder := "me"
	second := first.DeepCopy()
	second.Spec.HolderIdentity = &holder
	_, err = leases.Update(t.Context(), second, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = leases.Update(t.Context(), first, metav1.UpdateOptions{})
	require.True(t, apierrors.IsConflict(err), "%v", err)
	now, err := leases.Get(t.Context(), "lease", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, &holder, now.Spec.HolderIdentity)
}
