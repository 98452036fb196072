package auth

import (
	"crypto"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	clocktesting "k8s.io/utils/clock/testing"
)

// issuer is an OpenID Connect issuer that can be out of reach, as a whole or
// in its keys only.
type issuer struct {
	url            string
	down, keysDown atomic.Bool
	asked          chan struct{} // one for each request refused
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{asked: make(chan struct{}, 100)}
	inner := &oidctest.Server{
		PublicKeys: []oidctest.PublicKey{{PublicKey: keyOne().Public(), KeyID: "one", Algorithm: oidc.RS256}},
		Algorithms: []string{"HS256", oidc.RS256},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() || i.keysDown.Load() && r.URL.Path == "/keys" {
			w.WriteHeader(http.StatusServiceUnavailable)
			i.asked <- struct{}{}
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	inner.SetIssuer(server.URL)
	i.url = server.URL
	return i
}

// claims are those of a good token.
func (i *issuer) claims(clk *clocktesting.FakeClock) jwt.MapClaims {
	return jwt.MapClaims{
		"iss": i.url, "aud": "agentcube", "sub": "user-1", "email": "user@example.com",
		"exp":          clk.Now().Add(time.Minute).Unix(),
		"realm_access": map[string]any{"roles": []string{"user", "admin"}},
	}
}

func bearer(t *testing.T, key crypto.PrivateKey, kid string, claims jwt.MapClaims) string {
	t.Helper()
	text, err := json.Marshal(claims)
	require.NoError(t, err)
	return "Bearer " + oidctest.SignIDToken(key, kid, oidc.RS256, string(text))
}

// reached runs o until its issuer was reached.
func reached(t *testing.T, i *issuer, opts OIDCOptions) (*OIDC, *clocktesting.FakeClock) {
	t.Helper()
	clk := clocktesting.NewFakeClock(time.Unix(1796072051, 0))
	opts.IssuerURL, opts.Audience = i.url, "agentcube"
	o := NewOIDC(clk, opts, zap.NewNop())
	run(t, func() { assert.NoError(t, o.Run(t.Context())) })
	require.Eventually(t, func() bool { return o.verifier.Load() != nil }, 10*time.Second, time.Millisecond)
	return o, clk
}

func TestBearerTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	o, clk := reached(t, i, OIDCOptions{RoleClaim: "realm_access.roles", RequiredRole: "user"})
	with := func(change func(jwt.MapClaims)) string {
		claims := i.claims(clk)
		change(claims)
		return bearer(t, keyOne(), "one", claims)
	}
	good := with(func(jwt.MapClaims) {})
	secret, err := jwt.NewWithClaims(jwt.SigningMethodHS256, i.claims(clk)).SignedString(pairOf(t, keyOne())[entryPublic])
	require.NoError(t, err)
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, i.claims(clk)).SignedString(jwt.UnsafeAllowNoneSignatureType)
	require.NoError(t, err)

	for name, test := range map[string]struct {
		header string
		want   error
	}{
		"good":                      {good, nil},
		"scheme in another case":    {"bearer" + good[len("Bearer"):], nil},
		"no header":                 {"", ErrUnauthorized},
		"another scheme":            {"Basic dXNlcjpwYXNz", ErrUnauthorized},
		"no token":                  {"Bearer ", ErrUnauthorized},
		"garbage":                   {"Bearer a.b.c", ErrUnauthorized},
		"not signed":                {"Bearer " + unsigned, ErrUnauthorized},
		"HS256 with the public key": {"Bearer " + secret, ErrUnauthorized},
		"of another key":            {bearer(t, keyTwo(), "one", i.claims(clk)), ErrUnauthorized},
		"of a key nobody knows":     {bearer(t, keyTwo(), "two", i.claims(clk)), ErrUnauthorized},
		"expired":                   {with(func(c jwt.MapClaims) { c["exp"] = clk.Now().Add(-time.Second).Unix() }), ErrUnauthorized},
		"without an end":            {with(func(c jwt.MapClaims) { delete(c, "exp") }), ErrUnauthorized},
		"for another audience":      {with(func(c jwt.MapClaims) { c["aud"] = "other" }), ErrUnauthorized},
		"of another issuer":         {with(func(c jwt.MapClaims) { c["iss"] = "https://other" }), ErrUnauthorized},
		"without a subject":         {with(func(c jwt.MapClaims) { delete(c, "sub") }), ErrUnauthorized},
		"without the role":          {with(func(c jwt.MapClaims) { c["realm_access"] = map[string]any{"roles": []string{"admin"}} }), ErrForbidden},
		"without any role":          {with(func(c jwt.MapClaims) { delete(c, "realm_access") }), ErrForbidden},
		"with roles of a wrong type": {
			with(func(c jwt.MapClaims) { c["realm_access"] = map[string]any{"roles": map[string]any{"user": true}} }), ErrForbidden,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			principal, err := o.Authenticate(t.Context(), test.header)
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
				assert.Zero(t, principal)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, Principal{Subject: "user-1", Email: "user@example.com", Roles: []string{"user", "admin"}}, principal)
		})
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	const claims = `{"roles":["a","b"],"scope":"a b","realm_access":{"roles":["c"],"deep":{"er":["d"]}},
		"https://example.com/roles":["e"],"number":7}`
	for name, test := range map[string]struct {
		path string
		want []string
	}{
		"a claim of its own":              {"roles", []string{"a", "b"}},
		"a list in one text":              {"scope", []string{"a", "b"}},
		"a path":                          {"realm_access.roles", []string{"c"}},
		"a longer path":                   {"realm_access.deep.er", []string{"d"}},
		"a name with dots is not a path":  {"https://example.com/roles", []string{"e"}},
		"a claim that is absent":          {"groups", nil},
		"a path into what is no object":   {"roles.x", nil},
		"a claim that is no list or text": {"number", nil},
		"no claim":                        {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var parsed map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(claims), &parsed))
			assert.Equal(t, test.want, roles(parsed, test.path))
		})
	}
}

func TestAnIssuerOutOfReachIsWaitedFor(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.down.Store(true)
	clk := clocktesting.NewFakeClock(time.Unix(1796072051, 0))
	o := NewOIDC(clk, OIDCOptions{IssuerURL: i.url, Audience: "agentcube"}, zap.NewNop())
	run(t, func() { assert.NoError(t, o.Run(t.Context())) })
	<-i.asked
	header := bearer(t, keyOne(), "one", i.claims(clk))
	_, err := o.Authenticate(t.Context(), header)
	require.ErrorIs(t, err, ErrNotReady)

	i.down.Store(false)
	require.Eventually(t, clk.HasWaiters, 10*time.Second, time.Millisecond)
	clk.Step(issuerRetryMin)
	require.Eventually(t, func() bool { return o.verifier.Load() != nil }, 10*time.Second, time.Millisecond)
	principal, err := o.Authenticate(t.Context(), header)
	require.NoError(t, err)
	assert.Equal(t, "user-1", principal.Subject)
}

func TestKeysOutOfReachAreNotTheCallersFault(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.keysDown.Store(true)
	o, clk := reached(t, i, OIDCOptions{})
	header := bearer(t, keyOne(), "one", i.claims(clk))
	_, err := o.Authenticate(t.Context(), header)
	require.ErrorIs(t, err, ErrNotReady)
	i.keysDown.Store(false)
	_, err = o.Authenticate(t.Context(), header)
	require.NoError(t, err)
}
