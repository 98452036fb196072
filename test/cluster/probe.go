package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/agentcube/agentcube/test/cluster/process"
)

// probeTimeout bounds a single probe: a program may accept before it answers.
const probeTimeout = 5 * time.Second

// probe returns a readiness check that wants a 200 from url. With an authority,
// the server must show a certificate of it, so that another cluster's server on
// the same port does not count.
func probe(url string, ca []byte, token string) func(context.Context) error {
	client := &http.Client{
		Timeout: probeTimeout,
		// No connection outlives its probe.
		Transport: &http.Transport{TLSClientConfig: trust(ca), DisableKeepAlives: true},
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answered %d: %s", url, response.StatusCode, body)
		}
		return nil
	}
}

// apiServerReady wants /readyz, the namespace that everyone uses first (it is made
// after /readyz answers) and, on a later start, the custom resources that were
// served before (they come after /readyz too).
func apiServerReady(server string, ca []byte, token string, served func() error) func(context.Context) error {
	readyz := probe(server+"/readyz", ca, token)
	namespace := probe(server+"/api/v1/namespaces/default", ca, token)
	return allOf(readyz, namespace, func(context.Context) error { return served() })
}

// handshake returns a readiness check that wants a TLS server at address with a
// certificate of ca.
func handshake(address string, ca []byte) func(context.Context) error {
	dialer := &tls.Dialer{Config: trust(ca)}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// allOf returns a readiness check that wants every one of several.
func allOf(checks ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, check := range checks {
			if err := check(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// logged returns a readiness check that wants a text so many times in the output
// of a program. Controllers answer their probes before their caches are filled,
// and say so nowhere else.
func logged(p **process.Process, times int, text string) func(context.Context) error {
	return func(context.Context) error {
		output, err := (*p).Output()
		if err != nil {
			return err
		}
		if found := bytes.Count(output, []byte(text)); found < times {
			return fmt.Errorf("%q was logged %d times, not %d", text, found, times)
		}
		return nil
	}
}

func trust(ca []byte) *tls.Config {
	if ca == nil {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: roots}
}
