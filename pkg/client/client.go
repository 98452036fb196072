// Package client speaks to AgentCube: it creates, reads, changes and ends
// sessions at the workload-manager, and sends requests to their sandboxes
// through the router.
//
// Calls that can be repeated are repeated when the answer was lost or asks to be
// tried again, a bounded number of times and not before its Retry-After. A create
// bears an Idempotency-Key for that. An answer that is an error is an *Error; the
// usual ones match sentinels such as ErrSessionNotFound.
//
// It knows the wire only (package api) and the standard library. It keeps no
// sessions, and does not know the store or the cluster.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
)

// Bounds on the workload-manager's answers, in bytes. A page of a list holds up
// to 1,000 sessions with metadata of up to 4 KiB each.
const (
	maxAnswer = 1 << 20
	maxPage   = 16 << 20
)

// Options of a Client. Each URL is needed only for the calls that go there.
type Options struct {
	// WorkloadManager is the base URL of the workload-manager.
	WorkloadManager *url.URL
	// Router is the base URL of the router.
	Router *url.URL
	// Transport carries the requests; http.DefaultTransport if nil.
	Transport http.RoundTripper
	// Header is sent with every request, before what Authorize sets.
	Header http.Header
	// Authorize adds credentials to each request, each time it is sent; see
	// BearerToken. Nil: none.
	Authorize func(*http.Request) error
	// Retry says how often calls are repeated.
	Retry Retry
	// Clock paces the repeats; the system's if nil.
	Clock Clock
}

// BearerToken authorizes with what token returns, which is asked for each
// request, so that a token can be renewed.
func BearerToken(token func(context.Context) (string, error)) func(*http.Request) error {
	return func(r *http.Request) error {
		t, err := token(r.Context())
		if err != nil {
			return fmt.Errorf("getting a token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+t)
		return nil
	}
}

// Client is safe for use by several goroutines.
type Client struct {
	manager, router *url.URL
	http            *http.Client
	header          http.Header
	authorize       func(*http.Request) error
	retry           Retry
	clock           Clock
}

// New makes a client. It sends nothing yet.
func New(o Options) *Client {
	c := &Client{
		manager: o.WorkloadManager, router: o.Router,
		http: &http.Client{
			Transport: o.Transport,
			// A redirect is no answer to a call, and that of a sandbox is the
			// caller's.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		header: o.Header, authorize: o.Authorize, retry: o.Retry.withDefaults(), clock: o.Clock,
	}
	if c.clock == nil {
		c.clock = systemClock{}
	}
	return c
}

// With returns a client that sends these headers with every request too, after
// those of Options.Header.
func (c *Client) With(header http.Header) *Client {
	with := *c
	with.header = with.header.Clone()
	if with.header == nil {
		with.header = http.Header{}
	}
	maps.Copy(with.header, header)
	return &with
}

// ErrNoURL is returned by calls to a service whose URL is not among the options.
var ErrNoURL = errors.New("no URL is known")

// call is one call to the workload-manager.
type call struct {
	doing        string // for errors: "deleting session 3f…"
	method, path string
	query        url.Values
	body         any // JSON; nil for none
	header       http.Header
	max          int64 // bound on the answer
	// once: it is never sent twice.
	once bool
}

// answer of the workload-manager, whose status is 2xx.
type answer struct {
	status int
	header http.Header
	body   []byte
	// repeated: an earlier try may have been carried out.
	repeated bool
}

// do makes a call until it is answered for good.
func (c *Client) do(ctx context.Context, what call) (answer, error) {
	if c.manager == nil {
		return answer{}, fmt.Errorf("%s: %w for the workload-manager", what.doing, ErrNoURL)
	}
	target := c.manager.JoinPath(what.path)
	target.RawQuery = what.query.Encode()
	var body []byte
	if what.body != nil {
		var err error
		if body, err = json.Marshal(what.body); err != nil {
			return answer{}, fmt.Errorf("%s: encoding the request: %w", what.doing, err)
		}
	}
	var got answer
	err := c.repeat(ctx, what.once, func(first bool) error {
		var err error
		got, err = c.send(ctx, what, target.String(), body)
		got.repeated = !first
		return err
	})
	if err != nil {
		return got, fmt.Errorf("%s: %w", what.doing, err)
	}
	return got, nil
}

func (c *Client) send(ctx context.Context, what call, target string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, what.method, target, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if err := c.prepare(req, what.header); err != nil {
		return answer{}, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return answer{}, &lostError{err}
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, what.max+1))
	if err != nil {
		return answer{}, &lostError{fmt.Errorf("reading the answer: %w", err)}
	}
	if res.StatusCode < http.StatusOK || res.StatusCode >= http.StatusMultipleChoices {
		return answer{}, c.refusal(res, text)
	}
	if int64(len(text)) > what.max {
		return answer{}, fmt.Errorf("%w: it is larger than %d bytes", ErrAnswer, what.max)
	}
	return answer{status: res.StatusCode, header: res.Header, body: text}, nil
}

// prepare sets the headers of a request, those of the call last.
func (c *Client) prepare(req *http.Request, header http.Header) error {
	maps.Copy(req.Header, c.header.Clone())
	if c.authorize != nil {
		if err := c.authorize(req); err != nil {
			return err
		}
	}
	maps.Copy(req.Header, header.Clone())
	return nil
}

// decode reads the body of an answer.
func (a answer) decode(into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return nil
}
