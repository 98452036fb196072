package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/pkg/api"
)

// mustSend sends a request and wants an answer, whatever it says.
func mustSend(t *testing.T, method, url string, header http.Header, body string) answer {
	t.Helper()
	a, err := send(t.Context(), method, url, header, body)
	require.NoError(t, err)
	return a
}

// headers are name, value, name, value.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// managerRefuses wants an error in the workload-manager's shape.
func managerRefuses(t *testing.T, a answer, status int, code string) api.Error {
	t.Helper()
	require.Equal(t, status, a.status, a)
	var told api.Error
	a.decode(t, &told)
	assert.Equal(t, code, told.Code)
	assert.NotEmpty(t, told.Message)
	assert.NotEmpty(t, told.RequestID)
	return told
}

// routerRefuses wants an error in the router's shape.
func routerRefuses(t *testing.T, a answer, status int, code string) api.RouterError {
	t.Helper()
	require.Equal(t, status, a.status, a)
	var told api.RouterError
	a.decode(t, &told)
	assert.Equal(t, code, told.Code)
	assert.NotEmpty(t, told.Error)
	assert.NotEmpty(t, told.RequestID)
	return told
}

// namesSession wants the answer to say which session it belongs to, which still
// has its first pod.
func namesSession(t *testing.T, a answer, id string) {
	t.Helper()
	assert.Equal(t, id, a.header.Get(api.HeaderSessionID), "session of %s", a)
	assert.Equal(t, "1", a.header.Get(api.HeaderSessionGeneration), "generation of %s", a)
}

// pollInterval of what is waited for.
const pollInterval = 20 * time.Millisecond

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// podGone wants the pod to be no more, now or soon.
func (e *env) podGone(t *testing.T, name string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := e.client.Resource(pods).Namespace(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
		assert.True(c, apierrors.IsNotFound(err), "pod %s: %v", name, err)
	}, settle, pollInterval)
}
