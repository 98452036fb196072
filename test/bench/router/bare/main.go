// Bare is what the router is measured against: Go's reverse proxy and nothing
// else, with the transport and the buffers of the router itself.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"

	"github.com/agentcube/agentcube/pkg/router"
	"github.com/agentcube/agentcube/pkg/telemetry"
)

func main() {
	addr := flag.String("addr", "", "host:port to listen on")
	target := flag.String("target", "", "`URL` to forward to")
	flag.Parse()
	if err := run(*addr, *target); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

// run serves until the process is ended: a bare proxy has nothing to finish.
func run(addr, target string) error {
	to, err := url.Parse(target)
	if err != nil {
		return err
	}
	if to.Host == "" {
		return errors.New("-target is required")
	}
	// Time-outs would cost timers that a bare proxy does not have.
	server := &http.Server{Addr: addr, Handler: handler(to)} //nolint:gosec // on loopback
	return server.ListenAndServe()
}

func handler(to *url.URL) http.Handler {
	wire, buffers := router.Wire(router.Options{})
	proxy := &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:  wire,
		BufferPool: buffers,
	}
	metrics := telemetry.MetricsHandler(telemetry.NewRegistry("bare", telemetry.ReadBuild()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			metrics.ServeHTTP(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}
