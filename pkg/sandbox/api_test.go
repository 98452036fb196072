package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	discoveryfake "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

var extensions = []string{"sandboxclaims", "sandboxtemplates", "sandboxwarmpools"}

func serves(groupVersion string, resources ...string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: groupVersion}
	for _, r := range resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: r + "/status"}, metav1.APIResource{Name: r})
	}
	return list
}

func discoveryOf(lists ...*metav1.APIResourceList) *discoveryfake.FakeDiscovery {
	return &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: lists}}
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	alpha := []*metav1.APIResourceList{serves("agents.x-k8s.io/v1alpha1", "sandboxes"), serves("extensions.agents.x-k8s.io/v1alpha1", extensions...)}
	beta := []*metav1.APIResourceList{serves("agents.x-k8s.io/v1beta1", "sandboxes"), serves("extensions.agents.x-k8s.io/v1beta1", extensions...)}

	for sentence, c := range map[string]struct {
		lists []*metav1.APIResourceList
		want  string
	}{
		"v0.4 serves v1alpha1":                       {alpha, V1Alpha1},
		"v0.5 serves both, and v1beta1 is preferred": {append(alpha, beta...), V1Beta1},
		"v1beta1 alone":                              {beta, V1Beta1},
		"nothing is installed":                       {nil, ""},
		"the extensions are missing":                 {beta[:1], ""},
		"one resource is missing":                    {[]*metav1.APIResourceList{beta[0], serves("extensions.agents.x-k8s.io/v1beta1", extensions[:2]...)}, ""},
		"v1beta1 in part, v1alpha1 whole":            {append(alpha, beta[0]), V1Alpha1},
		"a subresource alone is no resource":         {[]*metav1.APIResourceList{{GroupVersion: "agents.x-k8s.io/v1beta1", APIResources: []metav1.APIResource{{Name: "sandboxes/status"}}}, beta[1]}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got, err := Discover(discoveryOf(c.lists...))
			if c.want == "" {
				require.ErrorIs(t, err, ErrNotServed)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, API{Version: c.want}, got)
		})
	}
}

func TestDiscoverTellsAnUnavailableServerFromAMissingAPI(t *testing.T) {
	t.Parallel()
	d := discoveryOf()
	d.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("starting")
	})

	_, err := Discover(d)
	require.ErrorIs(t, err, ErrUnavailable)
	assert.NotErrorIs(t, err, ErrNotServed)
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: dev
clusters:
- name: dev
  cluster: {server: "https://127.0.0.1:6443"}
users:
- name: dev
  user: {token: secret}
contexts:
- name: dev
  context: {cluster: dev, user: dev}
`

func TestRESTConfigOfAKubeconfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(kubeconfig), 0o600))

	got, err := RESTConfig(clock.RealClock{}, file)
	require.NoError(t, err)
	assert.Equal(t, "https://127.0.0.1:6443", got.Host)
	assert.Equal(t, "secret", got.BearerToken)
	assert.InDelta(t, 200, got.QPS, 0)
	assert.Equal(t, 400, got.Burst)
	assert.Zero(t, got.Timeout, "a timeout would cut watches")
	assert.Contains(t, got.UserAgent, "agentcube")
}

func TestRESTConfigTellsWhatIsMissing(t *testing.T) {
	_, err := RESTConfig(clock.RealClock{}, filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)

	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err = RESTConfig(clock.RealClock{}, "")
	require.ErrorContains(t, err, "not in a cluster")
}
