package e2e

import (
	"encoding/pem"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// watchBehaviours are about watches that say nothing any more.
var watchBehaviours = []behaviour{
	{"a create whose watch goes silent finds its sandbox by a direct read", watchSilent},
}

// silencer is a way to the API server on which watches can go silent while
// their connections, and all else on them, go on.
type silencer struct {
	// opened counts the watches; the first so many are muted.
	opened, muted atomic.Int64
	// kept is how much of the watches it kept to itself, in bytes.
	kept atomic.Int64
}

// muteOpen silences the watches that are open now.
func (s *silencer) muteOpen() { s.muted.Store(s.opened.Load()) }

// muteAll silences later ones too.
func (s *silencer) muteAll() { s.muted.Store(math.MaxInt64) }

// silencer returns one, its URL, and the authority of its certificate.
func (e *env) silencer(t *testing.T) (s *silencer, server string, ca []byte) {
	t.Helper()
	s = &silencer{}
	target, err := url.Parse(e.Cluster.Config().Host)
	require.NoError(t, err)
	// The credentials are those of whoever comes this way.
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(e.Cluster.Config()))
	require.NoError(t, err)
	listener := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Has("watch") {
				r.Body = &watchBody{ReadCloser: r.Body, silencer: s, number: s.opened.Add(1), done: r.Request.Context().Done()}
			}
			return nil
		},
	})
	listener.EnableHTTP2 = true
	listener.StartTLS()
	t.Cleanup(listener.Close)
	t.Cleanup(listener.CloseClientConnections) // watches do not end by themselves
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listener.Certificate().Raw})
	return s, listener.URL, ca
}

// watchBody is what a watch says.
type watchBody struct {
	io.ReadCloser
	silencer *silencer
	number   int64
	done     <-chan struct{}
}

func (b *watchBody) Read(p []byte) (int, error) {
	for {
		n, err := b.ReadCloser.Read(p)
		if b.number > b.silencer.muted.Load() {
			return n, err
		}
		b.silencer.kept.Add(int64(n))
		if err != nil {
			<-b.done // not even the end is heard
			return 0, err
		}
	}
}

func watchSilent(t *testing.T, e *env) {
	s := e.site(t)
	var watches *silencer
	watches, s.server, s.ca = e.silencer(t)
	s.addManager(t)
	creates, pods := map[string]*pending{}, map[string]string{} // by kind
	for _, w := range ways {
		w.prepare(t, s.env, w.name(), node.NeverReady, "true")
		creates[w.kind] = s.begin(t, w, w.name())
		pods[w.kind] = sandboxName(s.waiting(t, w))
	}
	watches.muteAll()
	for _, w := range ways {
		require.False(t, creates[w.kind].over())
		require.NoError(t, s.Cluster.Node.SetReady(t.Context(), s.namespace, pods[w.kind], true))
	}
	for _, w := range ways {
		a := creates[w.kind].wait(t)
		require.Equal(t, http.StatusOK, a.status, a)
		var created api.CreateResponse
		a.decode(t, &created)
		row, ok := s.row(t, created.SessionID)
		require.True(t, ok)
		assert.Equal(t, "ready", row["status"])
		assert.Equal(t, pods[w.kind], row["sandboxName"])
	}
	assert.NotZero(t, watches.kept.Load(), "no watch had anything to say")
}

// freezeBound is when a watch that was frozen without being closed is made
// anew.
const freezeBound = 90 * time.Second

func watchFrozen(t *testing.T, e *env) {
	s := e.site(t)
	s.addManager(t)
	s.watchMadeAnew(t, s.toAPIServer.FreezeOpen)
}

func watchMuted(t *testing.T, e *env) {
	s := e.site(t)
	var watches *silencer
	watches, s.server, s.ca = e.silencer(t)
	s.addManager(t)
	s.watchMadeAnew(t, watches.muteOpen)
	assert.NotZero(t, watches.kept.Load(), "no watch had anything to say")
}

// watchMadeAnew freezes the watches that are open, and wants what they keep to
// themselves to be noticed, and what happens afterwards.
func (s *site) watchMadeAnew(t *testing.T, freeze func()) {
	t.Helper()
	s.apply(t, runtimeTemplate("echo"))
	first, second := s.create(t, agentRuntime, "echo"), s.create(t, agentRuntime, "echo")
	freeze()
	frozen := time.Now()
	s.deleteSandbox(t, first)
	_, there := s.row(t, first.SessionID)
	require.True(t, there, "the deletion was seen: the watch is not frozen")
	require.Eventually(t, func() bool { _, there := s.row(t, first.SessionID); return !there },
		freezeBound-time.Since(frozen), pollInterval)
	t.Logf("noticed after %s", time.Since(frozen).Round(time.Second))
	s.deleteSandbox(t, second)
	s.gone(t, second.SessionID)
	s.clean(t)
}

// deleteSandbox deletes a session's Sandbox behind our back, and waits until it
// is gone.
func (e *env) deleteSandbox(t *testing.T, s api.CreateResponse) {
	t.Helper()
	sandboxes := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace)
	require.NoError(t, sandboxes.Delete(t.Context(), s.SandboxName, metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		_, err := sandboxes.Get(t.Context(), s.SandboxName, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, settle, pollInterval)
}
