package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func routerService(target intstr.IntOrString) *corev1.Service {
	const name = "router"
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{Kind: "Service", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "agentcube"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: target}},
		},
	}
}

// pod of a service, ready, made so long after the start.
func pod(name, of string, after time.Duration, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "agentcube", Labels: map[string]string{"app": of},
			CreationTimestamp: metav1.NewTime(start.Add(after)),
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "sidecar"}, {Name: "main", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}},
		}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func notReady(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func going(p *corev1.Pod) {
	p.DeletionTimestamp = &metav1.Time{Time: start}
	p.Finalizers = []string{"test/keep"} // or the fake does not take it
}

func TestAReadyPodOfTheServiceIsFound(t *testing.T) {
	t.Parallel()
	http := intstr.FromString("http")
	for sentence, c := range map[string]struct {
		objects []runtime.Object
		want    target
		err     error
	}{
		"the one that was there first": {
			[]runtime.Object{routerService(http), pod("b", "router", 2), pod("a", "router", time.Hour)},
			target{"agentcube", "b", 8080},
			nil,
		},
		"by name where there are several": {
			[]runtime.Object{routerService(http), pod("b", "router", 0), pod("a", "router", 0)},
			target{"agentcube", "a", 8080},
			nil,
		},
		"none that is not ready, goes, or is another's": {
			[]runtime.Object{
				routerService(http), pod("a", "router", 0, notReady), pod("b", "router", 0, going),
				pod("c", "workload-manager", 0), pod("d", "router", time.Hour),
			},
			target{"agentcube", "d", 8080},
			nil,
		},
		"at a port that is a number": {
			[]runtime.Object{routerService(intstr.FromInt32(9090)), pod("a", "router", 0)},
			target{"agentcube", "a", 9090},
			nil,
		},
		"at the Service's own port where it names none": {
			[]runtime.Object{routerService(intstr.IntOrString{}), pod("a", "router", 0)},
			target{"agentcube", "a", 80},
			nil,
		},
		"not without a ready pod": {
			[]runtime.Object{routerService(http), pod("a", "router", 0, notReady)}, target{}, errNoPod,
		},
		"not at a port that the pod does not have": {
			[]runtime.Object{routerService(intstr.FromString("grpc")), pod("a", "router", 0)}, target{}, errNoPort,
		},
		"not without a selector": {
			[]runtime.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "router", Namespace: "agentcube"}}},
			target{},
			errNoSelector,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got, err := find(t.Context(), fake.NewClientset(c.objects...), "agentcube", "router")
			require.ErrorIs(t, err, c.err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestAURLIsTakenAsItIsGiven(t *testing.T) {
	t.Parallel()
	config := func() (*rest.Config, error) { return nil, errors.New("the API server is not needed") }
	for text, ok := range map[string]bool{
		"http://127.0.0.1:8080": true, "https://cube.example/base": true,
		"127.0.0.1:8080": false, "cube.example": false, "http://": false, "ftp://cube.example": false, "http://%zz": false,
	} {
		w := New(Options{URLs: map[Service]string{Router: text}, Config: config})
		u, err := w.To(t.Context(), Router)
		require.NoError(t, w.Close())
		if !ok {
			require.ErrorContains(t, err, "--router-url", text)
			continue
		}
		require.NoError(t, err, text)
		assert.Equal(t, text, u.String())
	}
}

// apiServer answers as the API server does, and forwards ports to a backend.
// It knows SPDY only, as one before 1.30.
type apiServer struct {
	backend string
	running sync.WaitGroup
	asked   []string // ports that were asked for; read after running
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/agentcube/"); path {
	case "services/router":
		encode(w, routerService(intstr.FromString("http")))
	case "pods":
		list := &corev1.PodList{
			TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
			Items:    []corev1.Pod{*pod("router-1", "router", 0)},
		}
		encode(w, list)
	case "pods/router-1/portforward":
		a.forward(w, r)
	default:
		http.NotFound(w, r)
	}
}

func encode(w http.ResponseWriter, object runtime.Object) {
	w.Header().Set("Content-Type", "application/json")
	_ = scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion).Encode(object, w) // the client says if it cannot read it
}

func (a *apiServer) forward(w http.ResponseWriter, r *http.Request) {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "unable to upgrade", http.StatusBadRequest)
		return
	}
	a.running.Add(1)
	defer a.running.Done()
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	for {
		select {
		case s := <-streams:
			if s.Headers().Get(corev1.StreamType) != corev1.StreamTypeData {
				continue // the stream of errors ends with the connection
			}
			a.asked = append(a.asked, s.Headers().Get(corev1.PortHeader))
			a.running.Go(func() { a.carry(r.Context(), s) }) //nolint:contextcheck // it is passed
		case <-conn.CloseChan():
			return
		}
	}
}

func (a *apiServer) carry(ctx context.Context, s httpstream.Stream) {
	backend, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.backend)
	if err != nil {
		return
	}
	go func() { _, _ = io.Copy(backend, s) }()
	_, _ = io.Copy(s, backend)
	_ = s.Close()
	_ = backend.Close()
}

func TestWithoutAURLAPortIsForwardedToAPod(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		fmt.Fprintf(w, "hello %s", r.URL.Path)
	}))
	t.Cleanup(backend.Close)
	api := &apiServer{backend: backend.Listener.Addr().String()}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	w := New(Options{Namespace: "agentcube", Config: func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil }})

	base, err := w.To(t.Context(), Router)
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1", base.Hostname())
	res, err := http.Get(base.JoinPath("/readyz").String()) //nolint:noctx // the test is the context
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, "hello /readyz", string(body))

	again, err := w.To(t.Context(), Router)
	require.NoError(t, err)
	assert.Equal(t, base, again, "one port-forward per service")
	require.NoError(t, w.Close())
	api.running.Wait()
	assert.Equal(t, []string{"8080"}, api.asked)
	_, err = net.Dial("tcp", base.Host) //nolint:noctx // nothing listens
	require.Error(t, err, "it ends with Close")
}

func TestAServiceThatIsNotThereHasNoWay(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&apiServer{})
	t.Cleanup(server.Close)
	w := New(Options{Namespace: "agentcube", Config: func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil }})
	_, err := w.To(t.Context(), WorkloadManager)
	var noWay *NoWayError
	require.ErrorAs(t, err, &noWay)
	assert.Equal(t, WorkloadManager, noWay.Service)

	broken := errors.New("no kubeconfig")
	w = New(Options{Config: func() (*rest.Config, error) { return nil, broken }})
	_, err = w.To(context.Background(), WorkloadManager)
	require.ErrorIs(t, err, broken)
}
