package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/agentcube/agentcube/pkg/api"
)

// maxRefusal bounds the errors of the router's own, in bytes. A longer body is
// the sandbox's.
const maxRefusal = 64 << 10

// Invocation is a request to a session's sandbox.
type Invocation struct {
	Kind            Kind
	Namespace, Name string
	// SessionID names the session. Empty: the router makes one, which the answer
	// names.
	SessionID string
	// Method is GET if empty.
	Method string
	// Path and query as they are to reach the sandbox, byte for byte: "/run?x=1".
	// The caller percent-encodes it.
	Path string
	// Header is sent along.
	Header http.Header
	// Body is streamed. An invocation that the router refuses for now is sent
	// again only if the body can be read again: none, a *bytes.Reader, a
	// *bytes.Buffer or a *strings.Reader.
	Body io.Reader
}

// Response is the sandbox's answer, whatever its status. The body is streamed
// and must be closed.
type Response struct {
	*http.Response
	// SessionID is the session that answered.
	SessionID string
	// Generation counts the sandboxes that the session had. Zero: unknown.
	Generation int64
}

// Invoke sends a request through the router and returns the sandbox's answer as
// soon as its head is there. An error of the router's own is an *Error. What may
// have reached the sandbox is never sent twice.
func (c *Client) Invoke(ctx context.Context, i Invocation) (*Response, error) {
	doing := fmt.Sprintf("invoking %s %s/%s", i.Kind, i.Namespace, i.Name)
	if c.router == nil {
		return nil, fmt.Errorf("%s: %w for the router", doing, ErrNoURL)
	}
	req, err := i.request(ctx, c.router)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	var res *http.Response
	send := func(first bool) (err error) {
		res, err = c.invokeOnce(req, i.Header, first) //nolint:bodyclose // the caller closes it
		return err
	}
	if req.Body != nil && req.GetBody == nil {
		err = send(true) // the body cannot be read again
	} else {
		err = c.repeat(ctx, false, send)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	generation, _ := strconv.ParseInt(res.Header.Get(api.HeaderSessionGeneration), 10, 64) // zero: unknown
	return &Response{Response: res, SessionID: res.Header.Get(api.HeaderSessionID), Generation: generation}, nil
}

// request addresses the sandbox.
func (i Invocation) request(ctx context.Context, router *url.URL) (*http.Request, error) {
	part, known := invokeParts[i.Kind]
	if !known {
		return nil, fmt.Errorf("there is no kind %q", i.Kind)
	}
	req, err := http.NewRequestWithContext(ctx, i.Method, router.String(), i.Body)
	if err != nil {
		return nil, err
	}
	target := strings.TrimSuffix(router.EscapedPath(), "/") + "/v1/namespaces/" + url.PathEscape(i.Namespace) +
		"/" + part + "/" + url.PathEscape(i.Name) + "/invocations"
	if !strings.HasPrefix(i.Path, "/") {
		target += "/"
	}
	if req.URL, err = byteForByte(router, target+i.Path); err != nil {
		return nil, err
	}
	if i.SessionID != "" {
		req.Header.Set(api.HeaderSessionID, i.SessionID)
	}
	return req, nil
}

// byteForByte makes the URL whose request line is just that.
func byteForByte(base *url.URL, requestURI string) (*url.URL, error) {
	for _, b := range []byte(requestURI) {
		if b <= ' ' || b == '#' || b == 0x7f {
			return nil, fmt.Errorf("path %q: %q must be percent-encoded", requestURI, b)
		}
	}
	u, err := url.ParseRequestURI(requestURI)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	u.Scheme, u.Host = base.Scheme, base.Host
	if u.RequestURI() == requestURI {
		return u, nil
	}
	// Package url would encode it in its own way.
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Opaque: requestURI}, nil
}

func (c *Client) invokeOnce(template *http.Request, header http.Header, first bool) (*http.Response, error) {
	req := template.Clone(template.Context())
	if !first && template.GetBody != nil {
		body, err := template.GetBody()
		if err != nil {
			return nil, fmt.Errorf("reading the body again: %w", err)
		}
		req.Body = body
	}
	if err := c.prepare(req, header); err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if err := c.ofRouter(res); err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	return res, nil
}

// ofRouter returns an error of the router's own as such. It is told from the
// sandbox's answers by its body: an error, a code, and the id of the request.
// Only a body that is short, as its length says, is looked at; the caller gets
// it whole.
func (c *Client) ofRouter(res *http.Response) error {
	mayBe := res.StatusCode >= http.StatusBadRequest && res.ContentLength > 0 && res.ContentLength <= maxRefusal &&
		strings.HasPrefix(res.Header.Get("Content-Type"), "application/json")
	if !mayBe {
		return nil
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err) // for good: the sandbox had the request
	}
	var wire routerError
	_ = json.Unmarshal(text, &wire) // what is not JSON is not the router's
	if wire.Error != "" && wire.Code != "" && wire.RequestID != "" && wire.RequestID == res.Header.Get(api.HeaderRequestID) {
		return c.newError(res, wireError{Message: wire.Error, Code: wire.Code, Reason: wire.Reason, RequestID: wire.RequestID})
	}
	res.Body = whole{bytes.NewReader(text), res.Body}
	return nil
}

// whole is a body that was read already.
type whole struct {
	io.Reader
	io.Closer
}
