package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discoveryfake "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

var sandboxes = schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}

// ward is an installation that is in order.
type ward struct {
	*Doctor
	cluster *fake.Clientset
	objects *dynamicfake.FakeDynamicClient
	// forbidden rights, as "verb resource"
	forbidden map[string]bool
	readyz    map[string]http.HandlerFunc
}

func newWard(t *testing.T) *ward {
	t.Helper()
	w := &ward{cluster: fake.NewClientset(), forbidden: map[string]bool{}, readyz: map[string]http.HandlerFunc{}}
	w.serve(t, "runtime.agentcube.volcano.sh/v1alpha1", "agentruntimes", "codeinterpreters", "codeinterpreters/status")
	w.serve(t, "agents.x-k8s.io/v1beta1", "sandboxes")
	w.serve(t, "extensions.agents.x-k8s.io/v1beta1", "sandboxclaims", "sandboxtemplates", "sandboxwarmpools")
	w.cluster.PrependReactor("create", "subjectaccessreviews", w.review)
	w.objects = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{sandboxes: "SandboxList"})
	_, err := w.cluster.AppsV1().Deployments("agent-sandbox-system").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "agent-sandbox-controller", Namespace: "agent-sandbox-system"},
		Status:     appsv1.DeploymentStatus{AvailableReplicas: 1},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.Doctor = &Doctor{
		Clock: testingclock.NewFakePassiveClock(now), Kubernetes: w.cluster, Dynamic: w.objects, Namespace: "agentcube",
		Service: func(_ context.Context, name string) (*url.URL, error) {
			server := httptest.NewServer(w.readyz[name])
			t.Cleanup(server.Close)
			return url.Parse(server.URL)
		},
	}
	for _, name := range []string{workloadManager, router} {
		w.answers(name, 200, `{"status":"ready","details":{"store":"ok"}}`, now)
	}
	return w
}

func (w *ward) serve(t *testing.T, groupVersion string, resources ...string) {
	t.Helper()
	d, ok := w.cluster.Discovery().(*discoveryfake.FakeDiscovery)
	require.True(t, ok)
	list := &metav1.APIResourceList{GroupVersion: groupVersion}
	for _, r := range resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: r})
	}
	d.Resources = slices.DeleteFunc(d.Resources, func(l *metav1.APIResourceList) bool { return l.GroupVersion == groupVersion })
	d.Resources = append(d.Resources, list)
}

func (w *ward) review(action k8stesting.Action) (bool, runtime.Object, error) {
	create, _ := action.(k8stesting.CreateAction)
	review, _ := create.GetObject().(*authorizationv1.SubjectAccessReview)
	what := "path"
	if a := review.Spec.ResourceAttributes; a != nil {
		what = a.Verb + " " + a.Resource
	}
	review.Status.Allowed = !w.forbidden[what]
	return true, review, nil
}

func (w *ward) answers(service string, status int, body string, date time.Time) {
	w.readyz[service] = func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Date", date.Format(http.TimeFormat))
		rw.WriteHeader(status)
		_, _ = rw.Write([]byte(body))
	}
}

// of returns the finding of a check.
func of(t *testing.T, found []Finding, check string) Finding {
	t.Helper()
	i := slices.IndexFunc(found, func(f Finding) bool { return f.Check == check })
	require.GreaterOrEqual(t, i, 0, "no finding of %q in %v", check, found)
	return found[i]
}

func TestNothingIsSaidAgainstAnInstallationThatIsInOrder(t *testing.T) {
	t.Parallel()
	found := newWard(t).Examine(t.Context())
	assert.True(t, Healthy(found))
	for _, f := range found {
		assert.Equal(t, OK, f.Verdict, "%+v", f)
		assert.Empty(t, f.Fix)
	}
	assert.Len(t, found, 12)
}

func TestWhatIsWrongIsFound(t *testing.T) {
	t.Parallel()
	const v1beta1 = "extensions.agents.x-k8s.io/v1beta1"
	for sentence, c := range map[string]struct {
		breaks  func(*testing.T, *ward)
		check   string
		verdict Verdict
		message string
		fix     string
	}{
		"our definitions lack a kind": {
			func(t *testing.T, w *ward) { w.serve(t, ourGroupVersion, "agentruntimes") },
			checkOurCRDs, Broken, "codeinterpreters", "kubectl apply -k manifests/crds",
		},
		"agent-sandbox has no extensions": {
			func(t *testing.T, w *ward) { w.serve(t, v1beta1) },
			checkSandboxCRDs, Broken, "are not all served", "with its extensions",
		},
		"the controller has no replica": {
			func(t *testing.T, w *ward) {
				_, err := w.cluster.AppsV1().Deployments("agent-sandbox-system").Update(t.Context(), &appsv1.Deployment{
					ObjectMeta: metav1.ObjectMeta{Name: "agent-sandbox-controller", Namespace: "agent-sandbox-system"},
				}, metav1.UpdateOptions{})
				require.NoError(t, err)
			},
			checkController, Broken, "no available replica", "kubectl -n agent-sandbox-system",
		},
		"the controller has no Deployment, and nothing to be judged by": {
			func(t *testing.T, w *ward) { w.withoutDeployment(t) },
			checkController, Warning, "no Sandbox to judge it by", "create a session",
		},
		"the controller looks after nothing": {
			func(t *testing.T, w *ward) {
				w.withoutDeployment(t)
				w.sandbox(t, now.Add(-2*time.Minute), false)
			},
			checkController, Broken, "Sandbox default/box", "start agent-sandbox's controller",
		},
		"the controller looks after Sandboxes": {
			func(t *testing.T, w *ward) {
				w.withoutDeployment(t)
				w.sandbox(t, now.Add(-2*time.Minute), true)
			},
			checkController, OK, "1 Sandboxes", "",
		},
		"a right is missing": {
			func(_ *testing.T, w *ward) { w.forbidden["patch sandboxes"] = true },
			"rights of the workload-manager", Broken, "agentcube/workload-manager may not patch sandboxes.agents.x-k8s.io",
			"workload-manager-rbac.yaml",
		},
		"the router's right is missing": {
			func(_ *testing.T, w *ward) { w.forbidden["watch secrets"] = true },
			"rights of the router", Broken, "watch secrets/picod-router-identity", "router-rbac.yaml",
		},
		"rights may not be asked for": {
			func(_ *testing.T, w *ward) {
				w.cluster.PrependReactor("create", "subjectaccessreviews", func(k8stesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "subjectaccessreviews"}, "", errors.New("no"))
				})
			},
			"rights of the router", Warning, "you may not ask", "subjectaccessreviews",
		},
		"the store is out of reach": {
			func(_ *testing.T, w *ward) {
				w.answers(workloadManager, 200, `{"status":"ready","details":{"store":"failing"}}`, now)
			},
			"store as the workload-manager sees it", Broken, "failing", "REDIS_ADDR",
		},
		"the key is missing": {
			func(_ *testing.T, w *ward) {
				w.answers(workloadManager, 200, `{"status":"ready","details":{"identity-key":"failing"}}`, now)
			},
			"identity-key as the workload-manager sees it", Broken, "failing", "picod-router-identity",
		},
		"a removal is held back": {
			func(_ *testing.T, w *ward) {
				w.answers(workloadManager, 200, `{"status":"ready","details":{"resync":"failing"}}`, now)
			},
			"resync as the workload-manager sees it", Broken, "failing",
			"kubectl -n agentcube get configmap agentcube-workload-manager",
		},
		"a service drains": {
			func(_ *testing.T, w *ward) { w.answers(router, 503, `{"status":"draining"}`, now) },
			router, Broken, "draining", "log",
		},
		"something else answers": {
			func(_ *testing.T, w *ward) { w.answers(router, 200, `<html>`, now) },
			router, Broken, "not answered as AgentCube does", "is the URL",
		},
		"a service does not answer": {
			func(_ *testing.T, w *ward) {
				w.readyz[router] = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
			},
			router, Broken, "does not answer", "get pods",
		},
		"there is no way to a service": {
			func(_ *testing.T, w *ward) {
				w.Service = func(context.Context, string) (*url.URL, error) { return nil, errors.New("no way") }
			},
			router, Broken, "no way", "--router-url",
		},
		"a clock is a little off": {
			func(_ *testing.T, w *ward) { w.answers(router, 200, `{"status":"ready"}`, now.Add(10*time.Second)) },
			"clock of the router", Warning, "10s off", "NTP",
		},
		"a clock is far off": {
			func(_ *testing.T, w *ward) { w.answers(router, 200, `{"status":"ready"}`, now.Add(-time.Hour)) },
			"clock of the router", Broken, "1h0m0s off", "NTP",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			c.breaks(t, w)
			found := w.Examine(t.Context())
			f := of(t, found, c.check)
			assert.Equal(t, c.verdict, f.Verdict, "%+v", f)
			assert.Contains(t, f.Message, c.message)
			assert.Contains(t, f.Fix, c.fix)
			assert.Equal(t, c.verdict != Broken, Healthy(found))
		})
	}
}

func (w *ward) withoutDeployment(t *testing.T) {
	t.Helper()
	require.NoError(t, w.cluster.AppsV1().Deployments("agent-sandbox-system").Delete(t.Context(), "agent-sandbox-controller", metav1.DeleteOptions{}))
}

func (w *ward) sandbox(t *testing.T, created time.Time, touched bool) {
	t.Helper()
	box := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
		"metadata": map[string]any{"name": "box", "namespace": "default"},
	}}
	box.SetCreationTimestamp(metav1.NewTime(created))
	if touched {
		require.NoError(t, unstructured.SetNestedSlice(box.Object, []any{map[string]any{"type": "Ready"}}, "status", "conditions"))
	}
	_, err := w.objects.Resource(sandboxes).Namespace("default").Create(t.Context(), box, metav1.CreateOptions{})
	require.NoError(t, err)
}

// The rights that are asked for are those that the manifests give.
func TestRightsAreThoseOfTheManifests(t *testing.T) {
	t.Parallel()
	for service, rights := range map[string][]right{workloadManager: managerRights, router: routerRights} {
		text, err := os.ReadFile("../../../manifests/base/" + service + "-rbac.yaml")
		require.NoError(t, err)
		var given []string
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var role rbacv1.ClusterRole // a Role has the same rules
			require.NoError(t, yaml.Unmarshal([]byte(document), &role))
			if role.Kind != "Role" && role.Kind != "ClusterRole" {
				continue
			}
			for _, rule := range role.Rules {
				given = append(given, spelled(rule, role.Kind == "Role")...)
			}
		}
		var asked []string
		for _, r := range rights {
			for _, verb := range r.verbs {
				asked = append(asked, fmt.Sprintf("%s %s own=%t", verb, r, r.inOwnNamespaceOnly))
			}
		}
		assert.ElementsMatch(t, given, asked, service)
	}
}

// spelled is a rule as right.String puts it.
func spelled(rule rbacv1.PolicyRule, own bool) []string {
	var all []string
	for _, verb := range rule.Verbs {
		for _, path := range rule.NonResourceURLs {
			all = append(all, fmt.Sprintf("%s %s own=%t", verb, path, own))
		}
		for _, resource := range rule.Resources {
			name, sub, _ := strings.Cut(resource, "/")
			if rule.APIGroups[0] != "" {
				name += "." + rule.APIGroups[0]
			}
			if sub != "" {
				name += "/" + sub
			}
			if len(rule.ResourceNames) > 0 {
				name += "/" + rule.ResourceNames[0]
			}
			all = append(all, fmt.Sprintf("%s %s own=%t", verb, name, own))
		}
	}
	return all
}
