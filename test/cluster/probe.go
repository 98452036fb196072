package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"time"
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
	return func(ctx context.Context) error {
		if err := readyz(ctx); err != nil {
			return err
		}
		if err := namespace(ctx); err != nil {
			return err
		}
		return served()
	}
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

func trust(ca []byte) *tls.Config {
	if ca == nil {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: roots}
}
