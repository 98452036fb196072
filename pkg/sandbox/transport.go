package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// maxSilence is how long a watch may say nothing before it is made anew from
// where it was. The API server sends each watch a bookmark once a minute
// (apiserver pkg/storage/cacher/cacher.go, defaultBookmarkFrequency), so a
// longer silence is that of something between us, which may well go on to answer
// the health checks of the connection.
const maxSilence = 75 * time.Second

// maxStatus is how much of a refusal is read to see whose it is.
const maxStatus = 64 << 10

// apiTransport mends what client-go takes at its word: watches that went silent,
// and refusals of an API server that is only starting.
type apiTransport struct {
	next  http.RoundTripper
	clock clock.WithDelayedExecution
	// ready is where the API server tells whether it has started.
	ready *url.URL
}

// wrapTransport puts the transport between client-go and its connections.
func wrapTransport(clk clock.WithDelayedExecution, config *rest.Config) error {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("address of the API server: %w", err)
	}
	ready := *server
	ready.Path = path.Join("/", server.Path, "readyz")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &apiTransport{next: next, clock: clk, ready: &ready}
	})
	return nil
}

// RoundTrip implements http.RoundTripper.
func (t *apiTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusForbidden:
		return t.refused(r, response)
	case response.StatusCode == http.StatusOK && r.URL.Query().Get("watch") == "true":
		response.Body = newWakefulBody(t.clock, response.Body)
	}
	return response, nil
}

// WrappedRoundTripper lets client-go see what it wraps.
func (t *apiTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// refused tells apart a right that is lacking and one that the API server does
// not know of yet: it answers calls before it has read all roles, and says so
// only in its readiness. Once it is ready the same call is made again, since it
// may have become so in between.
func (t *apiTransport) refused(r *http.Request, response *http.Response) (*http.Response, error) {
	message, lacking, err := lacksRight(response)
	if err != nil || !lacking {
		return response, err
	}
	started, err := t.started(r)
	if err != nil {
		_ = response.Body.Close()
		return nil, fmt.Errorf("asking whether the API server has started: %w", err)
	}
	if !started {
		_ = response.Body.Close()
		return starting(r, message)
	}
	again := r.Clone(r.Context())
	if r.Body != nil && r.Body != http.NoBody {
		if r.GetBody == nil {
			return response, nil
		}
		if again.Body, err = r.GetBody(); err != nil {
			return response, nil //nolint:nilerr // the answer there is will do
		}
	}
	_ = response.Body.Close()
	return t.next.RoundTrip(again)
}

// lacksRight reports whether a refusal is for want of a right, with its message,
// and leaves its body as it was.
func lacksRight(response *http.Response) (message string, lacking bool, err error) {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxStatus))
	if err != nil {
		_ = response.Body.Close()
		return "", false, fmt.Errorf("reading a refusal: %w", err)
	}
	response.Body = restored{io.MultiReader(bytes.NewReader(text), response.Body), response.Body}
	decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return "", false, nil //nolint:nilerr // not the API server's
	}
	status, ok := decoded.(*metav1.Status)
	if !ok {
		return "", false, nil
	}
	kind, known := rejectedCause(status.Message)
	return status.Message, known && kind == RejectForbidden, nil
}

// restored is a body whose beginning was read.
type restored struct {
	io.Reader
	io.Closer
}

// started asks the API server. Each role of ours may ask it: whoever is refused
// even that is not known yet.
func (t *apiTransport) started(r *http.Request) (bool, error) {
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, t.ready.String(), http.NoBody)
	if err != nil {
		return false, err
	}
	for _, name := range []string{"Authorization", "User-Agent"} {
		ask.Header[name] = r.Header[name]
	}
	response, err := t.next.RoundTrip(ask)
	if err != nil {
		return false, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxStatus)) // so that the connection can be used again
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK, nil
}

// starting is the answer that an API server which knows that it has not started
// would give, in place of its refusal.
func starting(r *http.Request, refusal string) (*http.Response, error) {
	text, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Reason:   metav1.StatusReasonServiceUnavailable,
		Code:     http.StatusServiceUnavailable,
		Message:  "the API server is starting and does not know all roles yet: " + refusal,
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status:     http.StatusText(http.StatusServiceUnavailable),
		StatusCode: http.StatusServiceUnavailable,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(text)),
		ContentLength: int64(len(text)),
		Request:       r,
	}, nil
}

// wakefulBody ends once nothing came for maxSilence, as if the peer had ended it.
type wakefulBody struct {
	io.ReadCloser
	timer  clock.Timer
	silent atomic.Bool
}

func newWakefulBody(clk clock.WithDelayedExecution, body io.ReadCloser) *wakefulBody {
	b := &wakefulBody{ReadCloser: body}
	b.timer = clk.AfterFunc(maxSilence, func() {
		b.silent.Store(true)
		_ = body.Close() // ends the read under way
	})
	return b
}

// Read implements io.Reader.
func (b *wakefulBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.silent.Load() {
		return n, io.EOF
	}
	if n > 0 {
		b.timer.Reset(maxSilence)
	}
	return n, err
}

// Close implements io.Closer.
func (b *wakefulBody) Close() error {
	b.timer.Stop()
	return b.ReadCloser.Close()
}
