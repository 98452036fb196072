// Package reach finds a way from this machine to AgentCube's services: the URL
// that was given, or a port-forward by the API server to a pod of theirs.
//
// It speaks to the API server only; what is said to the services is up to the
// caller.
package reach

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Service is one of AgentCube's, called as its Service object is.
type Service string

// Services of AgentCube.
const (
	WorkloadManager Service = "workload-manager"
	Router          Service = "router"
)

// URLFlag is the flag that gives a service's URL.
func (s Service) URLFlag() string { return "--" + string(s) + "-url" }

// Options of Ways.
type Options struct {
	// URLs by service. Empty: a port-forward.
	URLs map[Service]string
	// Namespace is where the services are.
	Namespace string
	// Config is asked for when the API server is needed.
	Config func() (*rest.Config, error)
}

// Ways to the services. Make it with New, and Close it.
type Ways struct {
	options Options

	mu       sync.Mutex
	forwards map[Service]*forward
}

// New opens nothing yet.
func New(o Options) *Ways { return &Ways{options: o, forwards: map[Service]*forward{}} }

// To is the base URL of a service. A port-forward stays open until Close.
func (w *Ways) To(ctx context.Context, s Service) (*url.URL, error) {
	if text := w.options.URLs[s]; text != "" {
		u, err := url.Parse(text)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("%s: %q is not a URL that begins with http:// or https:// and names a host", s.URLFlag(), text)
		}
		return u, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.forwards[s]; f != nil {
		return f.url(), nil
	}
	f, err := w.open(ctx, s)
	if err != nil {
		return nil, &NoWayError{Service: s, Namespace: w.options.Namespace, err: err}
	}
	w.forwards[s] = f
	return f.url(), nil
}

func (w *Ways) open(ctx context.Context, s Service) (*forward, error) {
	config, err := w.options.Config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	target, err := find(ctx, client, w.options.Namespace, string(s))
	if err != nil {
		return nil, err
	}
	return openForward(ctx, config, target)
}

// Close ends the port-forwards.
func (w *Ways) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for s, f := range w.forwards {
		errs = append(errs, f.close())
		delete(w.forwards, s)
	}
	return errors.Join(errs...)
}

// NoWayError: a service has no URL, and no port-forward leads to it.
type NoWayError struct {
	Service   Service
	Namespace string
	err       error
}

// Error implements error.
func (e *NoWayError) Error() string {
	return fmt.Sprintf("no way to the %s in namespace %s: %v", e.Service, e.Namespace, e.err)
}

// Unwrap returns the cause.
func (e *NoWayError) Unwrap() error { return e.err }
