package router

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

func TestFilterHeaders(t *testing.T) {
	t.Parallel()
	set := func(h http.Header) http.Header { // what the router sets anyway
		for name, value := range map[string]string{forwardedFor: "192.0.2.1", forwardedHost: "router.test", forwardedProto: "http"} {
			if h.Get(name) == "" {
				h.Set(name, value)
			}
		}
		return h
	}
	for sentence, c := range map[string]struct {
		in      http.Header
		token   string
		trusted bool
		want    http.Header
	}{
		"forwarding headers are set":         {in: header(), want: header()},
		"forged ones are replaced":           {in: header(forwardedFor, "6.6.6.6", forwardedHost, "evil.test", forwardedProto, "https"), want: header()},
		"and all of their kind are dropped":  {in: header("Forwarded", "for=6.6.6.6", "X-Forwarded-Port", "1", "X_forwarded_for", "6.6.6.6"), want: header()},
		"a trusted proxy is believed":        {in: header(forwardedFor, "6.6.6.6", forwardedHost, "h.test", forwardedProto, "https", "Forwarded", "for=6.6.6.6"), trusted: true, want: header(forwardedFor, "6.6.6.6, 192.0.2.1", forwardedHost, "h.test", forwardedProto, "https", "Forwarded", "for=6.6.6.6")},
		"its list may come in pieces":        {in: header(forwardedFor, "6.6.6.6", forwardedFor, "7.7.7.7"), trusted: true, want: header(forwardedFor, "6.6.6.6, 7.7.7.7, 192.0.2.1")},
		"an identity is dropped":             {in: header(api.HeaderUserIdentity, "x", "X_agentcube_user_identity", "x"), want: header()},
		"also from a trusted proxy":          {in: header(api.HeaderUserIdentity, "x"), trusted: true, want: header()},
		"the token replaces the caller's":    {in: header("Authorization", "Bearer a", "Authorization", "Basic b"), token: "Bearer t", want: header("Authorization", "Bearer t")},
		"without one the caller's passes":    {in: header("Authorization", "Basic b"), want: header("Authorization", "Basic b")},
		"an upgrade is kept":                 {in: header("Connection", "Upgrade", "Upgrade", "websocket"), want: header("Connection", "Upgrade", "Upgrade", "websocket")},
		"one to HTTP/2 is not":               {in: header("Connection", "Upgrade", "Upgrade", "h2c", "Http2-Settings", "AAMAAABkAAQ"), want: header()},
		"the session header is kept":         {in: header(api.HeaderSessionID, "i"), want: header(api.HeaderSessionID, "i")},
		"the session cookie is not":          {in: header("Cookie", api.HeaderSessionID+"=i"), want: header()},
		"other cookies are":                  {in: header("Cookie", "a=b; "+api.HeaderSessionID+"=i"), want: header("Cookie", "a=b")},
		"everything else passes as it stood": {in: header("X-A", "1", "X-A", "2", "Accept-Encoding", "br", "X-Real-Thing", "x"), want: header("X-A", "1", "X-A", "2", "Accept-Encoding", "br", "X-Real-Thing", "x")},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			in := &http.Request{Header: c.in, Host: "router.test", RemoteAddr: "192.0.2.1:1234"}
			out := c.in.Clone()
			filterHeaders(in, out, c.token, c.trusted)
			assert.Equal(t, set(c.want), out)
		})
	}
}

func TestForwardedProtoTellsTLS(t *testing.T) {
	t.Parallel()
	out := http.Header{}
	filterHeaders(&http.Request{TLS: &tls.ConnectionState{}, RemoteAddr: "[2001:db8::1]:1"}, out, "", false)
	assert.Equal(t, header(forwardedProto, "https", forwardedFor, "2001:db8::1"), out)
}

func TestTrustedPeer(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	for peer, want := range map[string]bool{
		"10.1.2.3:1": true, "[::ffff:10.1.2.3]:1": true, "[2001:db8::1]:1": true,
		"11.0.0.1:1": false, "[2001:db9::1]:1": false, "@": false, "": false,
	} {
		assert.Equal(t, want, trustedPeer(peer, proxies), peer)
	}
	assert.False(t, trustedPeer("10.1.2.3:1", nil))
}

func TestWhatTheSandboxSeesOfTheHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, nil)
	id := r.ready(s.endpoint(), func(s *session.Session) { s.KeyID = "key" })

	res := r.raw("GET "+echoPath+"/x HTTP/1.1", api.HeaderSessionID+": "+id, "Authorization: Bearer callers-own",
		"X-Forwarded-For: 6.6.6.6", "X-AgentCube-User-Identity: forged", "Connection: X-Hop, keep-alive", "X-Hop: 1",
		"Keep-Alive: 5", "Proxy-Authorization: p", "Te: gzip", "X-Kept: a", "X-Kept: b")

	require.Equal(t, http.StatusOK, res.StatusCode)
	got := s.last(t)
	assert.Equal(t, s.endpoint(), got.Host)
	assert.Equal(t, http.Header{
		"Authorization":          {"Bearer token/" + id + "/key/"},
		"X-Agentcube-Session-Id": {id},
		"X-Forwarded-For":        {"127.0.0.1"},
		"X-Forwarded-Host":       {"router.test"},
		"X-Forwarded-Proto":      {"http"},
		"X-Kept":                 {"a", "b"},
	}, got.Header)
}

func TestTheCallersAuthorizationPassesOnlyWithAuthModeNone(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"":                    "Bearer token/" + sessiontest.ID(1) + "//",
		session.AuthModePicoD: "Bearer token/" + sessiontest.ID(1) + "//",
		session.AuthModeNone:  "Bearer callers-own",
	} {
		r := newRig(t)
		s := newSandbox(t, nil)
		id := r.ready(s.endpoint(), func(s *session.Session) { s.AuthMode = mode })
		req := r.request(http.MethodGet, echoPath+"/x", id, nil)
		req.Header.Set("Authorization", "Bearer callers-own")
		res, body := r.do(req)
		require.Equal(t, http.StatusOK, res.StatusCode, body)
		assert.Equal(t, want, s.last(t).Header.Get("Authorization"), "authMode %q", mode)
	}
}

func FuzzHeaderFiltering(f *testing.F) {
	f.Add("X-Forwarded-For", "6.6.6.6", "x-agentcube-session-id=1; a=b", true)
	f.Add("x_agentcube_user_identity", "x", "", false)
	f.Fuzz(func(t *testing.T, name, value, cookie string, trusted bool) {
		in := &http.Request{Header: header(name, value, "Cookie", cookie), Host: "h", RemoteAddr: "192.0.2.1:1"}
		out := in.Header.Clone()
		filterHeaders(in, out, "Bearer token", trusted)
		require.Equal(t, "Bearer token", out.Get("Authorization"))
		require.True(t, strings.HasSuffix(out.Get(forwardedFor), "192.0.2.1"))
		for n := range out {
			require.False(t, isIdentity(n), n)
			if !trusted && isForwarding(n) {
				require.Contains(t, []string{forwardedFor, forwardedHost, forwardedProto}, n)
			}
		}
		_, values := cutCookie(out["Cookie"])
		require.Empty(t, values)
	})
}
