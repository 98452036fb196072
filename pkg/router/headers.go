package router

import (
	"net/http"
	"net/netip"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/agentcube/agentcube/pkg/api"
)

const (
	forwardedFor   = "X-Forwarded-For"
	forwardedHost  = "X-Forwarded-Host"
	forwardedProto = "X-Forwarded-Proto"
	forwarded      = "Forwarded"
)

// Our own headers as a http.Header holds them: to find that out again takes
// memory.
var (
	headerSessionID    = http.CanonicalHeaderKey(api.HeaderSessionID)
	headerGeneration   = http.CanonicalHeaderKey(api.HeaderSessionGeneration)
	headerUserIdentity = http.CanonicalHeaderKey(api.HeaderUserIdentity)
)

// filterHeaders makes the headers that go to the sandbox out of the client's:
// out is a copy of in's headers without the hop-by-hop ones. trusted says
// whether the peer may speak for those it forwards for.
func filterHeaders(in *http.Request, out http.Header, authorization string, trusted bool) {
	for name := range out {
		if isForwarding(name) || isIdentity(name) {
			delete(out, name)
		}
	}
	setForwarded(in, out, trusted)
	if authorization != "" {
		out.Set("Authorization", authorization)
	}
	// A switch to HTTP/2 would open a tunnel past all of this. Ignoring the
	// offer is what the protocol provides for.
	if httpguts.HeaderValuesContainsToken(out["Upgrade"], "h2c") {
		out.Del("Upgrade")
		out.Del("Connection")
		out.Del("Http2-Settings")
	}
	rest, values := cutCookie(out["Cookie"])
	switch {
	case len(values) == 0:
	case len(rest) == 0:
		out.Del("Cookie")
	default:
		out["Cookie"] = rest
	}
}

// setForwarded says for whom the router forwards.
func setForwarded(in *http.Request, out http.Header, trusted bool) {
	proto := "http"
	if in.TLS != nil {
		proto = "https"
	}
	var chain []string
	if trusted {
		for name, values := range in.Header {
			if isForwarding(name) {
				out[name] = values
			}
		}
		chain = in.Header[forwardedFor]
	}
	if peer, err := netip.ParseAddrPort(in.RemoteAddr); err == nil {
		chain = append(chain[:len(chain):len(chain)], peer.Addr().Unmap().String())
	}
	if len(chain) > 0 {
		out.Set(forwardedFor, strings.Join(chain, ", "))
	}
	if out.Get(forwardedHost) == "" && in.Host != "" {
		out.Set(forwardedHost, in.Host)
	}
	if out.Get(forwardedProto) == "" {
		out.Set(forwardedProto, proto)
	}
}

// isForwarding reports a header in which proxies say for whom they forward.
func isForwarding(name string) bool {
	if !begins(name, 'F') && !begins(name, 'X') {
		return false // as most names: to fold one takes time
	}
	name = folded(name)
	return name == forwarded || strings.HasPrefix(name, "X-Forwarded-")
}

// isIdentity reports the header by which the workload-manager knows owners.
func isIdentity(name string) bool {
	return begins(name, 'X') && folded(name) == headerUserIdentity
}

// begins reports whether a name begins with a letter, in either case.
func begins(name string, letter byte) bool {
	return name != "" && name[0]&^0x20 == letter
}

// folded is the name as applications behind CGI-like interfaces see it, where
// "X_Forwarded_For" and "X-Forwarded-For" are one.
func folded(name string) string {
	if strings.Contains(name, "_") {
		name = strings.ReplaceAll(name, "_", "-")
	}
	return http.CanonicalHeaderKey(name)
}

// trustedPeer reports whether the connection comes from one of the proxies
// that may speak for others.
func trustedPeer(remoteAddr string, proxies []netip.Prefix) bool {
	if len(proxies) == 0 {
		return false
	}
	peer, err := netip.ParseAddrPort(remoteAddr)
	if err != nil {
		return false
	}
	ip := peer.Addr().Unmap().WithZone("")
	for _, p := range proxies {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}
