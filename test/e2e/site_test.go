package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/test/chaos/proxy"
	"github.com/agentcube/agentcube/test/cluster"
	"github.com/agentcube/agentcube/test/system"
)

// site is an installation of the test's own, on the cluster that all share. Its
// programs and its store can be broken without anyone else noticing, so what
// breaks them runs side by side with the rest.
//
// Its env is that of the test, but for the programs and the store.
type site struct {
	*env
	// toStore and toAPIServer are the way of its workload-managers to both.
	toStore, toAPIServer *proxy.Proxy
	// server is the URL by which the next manager reaches the API server, and
	// ca its authority; those of the cluster if empty.
	server string
	ca     []byte
}

// site makes one with a store of its own and no program yet. Its namespace is
// that of the test.
func (e *env) site(t *testing.T) *site {
	t.Helper()
	store, err := cluster.StartRedis(t.Context(), cluster.RedisOptions{Password: e.StorePassword(), AppendOnly: true})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return e.siteOn(t, store)
}

// siteOn makes one on a store that others may use as well.
func (e *env) siteOn(t *testing.T, store *cluster.Redis) *site {
	t.Helper()
	own := *e
	own.System = &system.System{Cluster: e.Cluster, Redis: store}
	own.redis = redis.NewClient(&redis.Options{Addr: store.Addr, Password: e.StorePassword()})
	t.Cleanup(func() { _ = own.redis.Close() })
	s := &site{
		env: &own, toStore: listen(t, store.Addr),
		toAPIServer: listen(t, strings.TrimPrefix(e.Cluster.Config().Host, "https://")),
	}
	s.giveRights(t)
	s.copyKey(t)
	return s
}

func listen(t *testing.T, target string) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Listen(target)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// giveRights gives a service account in the test's namespace what the shipped
// manifests give to that of an installation.
func (s *site) giveRights(t *testing.T) {
	t.Helper()
	rbac, err := os.ReadFile(filepath.Join(system.Root(), "manifests", "base", "workload-manager-rbac.yaml"))
	require.NoError(t, err)
	text := strings.ReplaceAll(string(rbac), "namespace: "+system.Namespace, "namespace: "+s.namespace)
	text = strings.ReplaceAll(text, "name: agentcube-workload-manager", "name: "+s.namespace+"-workload-manager")
	require.NoError(t, s.Cluster.Apply(t.Context(), []byte(text)))
}

// copyKey takes over the identity of the system's router: all workload-managers
// of a cluster reconcile the same CodeInterpreters, and must agree on the key.
func (s *site) copyKey(t *testing.T) {
	t.Helper()
	secret, err := s.client.Resource(secrets).Namespace(system.Namespace).Get(t.Context(), auth.SecretName, metav1.GetOptions{})
	require.NoError(t, err)
	own := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": secret.Object["type"], "data": secret.Object["data"],
		"metadata": map[string]any{"name": auth.SecretName, "namespace": s.namespace},
	}}
	_, err = s.client.Resource(secrets).Namespace(s.namespace).Create(t.Context(), own, metav1.CreateOptions{})
	require.NoError(t, err)
}

// addManager starts one more workload-manager of the site, with these arguments
// besides those that all have, and returns once it serves.
func (s *site) addManager(t *testing.T, args ...string) {
	t.Helper()
	p := s.start(t, launch{
		name: "workload-manager",
		args: append(append([]string{}, managerArgs...), args...),
		env: []string{
			"KUBECONFIG=" + s.kubeconfig(t), "AGENTCUBE_NAMESPACE=" + s.namespace, "REDIS_ADDR=" + s.toStore.Addr(),
		},
	})
	s.Managers = append(s.Managers, &system.Program{Process: p.Process, URL: p.url})
	serving(t, p.url)
}

// serving waits until a workload-manager can create sessions.
func serving(t *testing.T, url string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var told struct{ Details map[string]string }
		mustSend(t, http.MethodGet, url+"/readyz", nil, "").decode(t, &told)
		for _, dependency := range []string{"store", "cluster", "identity-key"} {
			assert.Equal(c, "ok", told.Details[dependency], dependency)
		}
	}, settle, pollInterval)
}

// kubeconfig is that of the site's service account, by way of its proxy.
func (s *site) kubeconfig(t *testing.T) string {
	t.Helper()
	path, err := s.Cluster.ServiceAccountKubeconfig(t.Context(), s.namespace, "workload-manager")
	require.NoError(t, err)
	config, err := clientcmd.LoadFromFile(path)
	require.NoError(t, err)
	for _, c := range config.Clusters {
		c.Server = "https://" + s.toAPIServer.Addr()
		if s.server != "" {
			c.Server, c.CertificateAuthority, c.CertificateAuthorityData = s.server, "", s.ca
		}
	}
	own := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, own))
	return own
}

// addRouter starts a router on the site's store.
func (s *site) addRouter(t *testing.T, args ...string) {
	t.Helper()
	p := s.start(t, launch{name: "router", args: args, env: []string{
		"REDIS_ADDR=" + s.Redis.Addr, "WORKLOAD_MANAGER_URL=" + s.Manager().URL,
	}})
	s.Router = &system.Program{Process: p.Process, URL: p.url}
}
