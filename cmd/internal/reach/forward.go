package reach

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// forward is a port-forward from a free port of this machine.
type forward struct {
	port uint16
	stop chan struct{}
	done chan error
}

// openForward returns once connections are taken.
func openForward(ctx context.Context, config *rest.Config, t target) (*forward, error) {
	dialer, err := dialerTo(config, t)
	if err != nil {
		return nil, err
	}
	f := &forward{stop: make(chan struct{}), done: make(chan error, 1)}
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"},
		[]string{fmt.Sprintf("0:%d", t.port)}, f.stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	go func() { f.done <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-f.done:
		return nil, fmt.Errorf("forwarding a port to pod %s: %w", t.pod, err)
	case <-ctx.Done():
		close(f.stop)
		return nil, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		close(f.stop)
		return nil, err
	}
	f.port = ports[0].Local
	return f, nil
}

// dialerTo speaks WebSocket to the API server, and SPDY where an old one or a
// proxy does not know that, as kubectl does.
func dialerTo(config *rest.Config, t target) (httpstream.Dialer, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	u := client.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(t.namespace).Name(t.pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	current, err := portforward.NewSPDYOverWebsocketDialerForStreaming(u, config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(current, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

func (f *forward) url() *url.URL {
	return &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(int(f.port)))}
}

func (f *forward) close() error {
	close(f.stop)
	return <-f.done
}
