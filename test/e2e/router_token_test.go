package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/cluster/node"
	"github.com/agentcube/agentcube/test/system"
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// picodTemplate is a CodeInterpreter that checks the router's token.
func picodTemplate(name string) string {
	return strings.Replace(interpreterTemplate(name, 0), "authMode: none", "authMode: picod", 1)
}

// publicPEM is the router's public key as its Secret holds it.
func (e *env) publicPEM(t *testing.T) string {
	t.Helper()
	secret, err := e.client.Resource(secrets).Namespace(system.Namespace).
		Get(t.Context(), "picod-router-identity", metav1.GetOptions{})
	require.NoError(t, err)
	text, _, err := unstructured.NestedString(secret.Object, "data", "public.pem")
	require.NoError(t, err)
	pem, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return string(pem)
}

// routerToken reads the token that reached a sandbox and wants it signed with
// the key of the Secret.
func (e *env) routerToken(t *testing.T, echo node.Echo) *jwt.Token {
	t.Helper()
	authorization := echo.Headers["Authorization"]
	require.Len(t, authorization, 1, "the sandbox got %v", authorization)
	text, ok := strings.CutPrefix(authorization[0], "Bearer ")
	require.True(t, ok, "the sandbox got %q", authorization[0])
	key, err := jwt.ParseRSAPublicKeyFromPEM([]byte(e.publicPEM(t)))
	require.NoError(t, err)
	token, err := jwt.Parse(text, func(*jwt.Token) (any, error) { return key, nil }, jwt.WithValidMethods([]string{"RS256"}))
	require.NoError(t, err)
	return token
}

// tokenFor wants a token with exactly the contract's claims.
func (e *env) tokenFor(t *testing.T, id string, echo node.Echo) {
	t.Helper()
	token := e.routerToken(t, echo)
	assert.Equal(t, map[string]any{"alg": "RS256", "typ": "JWT"}, token.Header)
	claims := token.Claims.(jwt.MapClaims)
	issued, ok := claims["iat"].(float64)
	require.True(t, ok, "iat is %v", claims["iat"])
	// Nobody is logged in, so there is no user_sub and no user_email.
	assert.Equal(t, jwt.MapClaims{
		"iss": "agentcube-router", "aud": id, "session_id": id, "iat": issued, "exp": issued + 300,
	}, claims)
}

// invokeAs sends a request with the caller's own credentials, and with headers
// that a caller has no business to set.
func (e *env) invokeAs(t *testing.T, route, name, id string) node.Echo {
	t.Helper()
	a := mustSend(t, http.MethodGet, e.invocations(route, name)+"/x", headers(
		api.HeaderSessionID, id, "Authorization", "Bearer callers-own",
		api.HeaderUserIdentity, "forged", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Host", "forged.example",
	), "")
	require.Equal(t, http.StatusOK, a.status, a)
	var echo node.Echo
	a.decode(t, &echo)
	assert.Empty(t, echo.Headers.Values(api.HeaderUserIdentity))
	assert.Equal(t, []string{"127.0.0.1"}, echo.Headers.Values("X-Forwarded-For"))
	assert.Equal(t, []string{strings.TrimPrefix(e.Router.URL, "http://")}, echo.Headers.Values("X-Forwarded-Host"))
	return echo
}

func picodToken(t *testing.T, e *env) {
	e.apply(t, picodTemplate("picod"))
	s := e.create(t, codeInterpreter, "picod")
	e.tokenFor(t, s.SessionID, e.invokeAs(t, codeInterpreter, "picod", s.SessionID))

	// The sandbox checks with what it got at its start.
	object, err := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).Get(t.Context(), s.SandboxName, metav1.GetOptions{})
	require.NoError(t, err)
	containers, _, err := unstructured.NestedSlice(object.Object, "spec", "podTemplate", "spec", "containers")
	require.NoError(t, err)
	require.Len(t, containers, 1)
	assert.Equal(t, []any{map[string]any{"name": "PICOD_AUTH_PUBLIC_KEY", "value": e.publicPEM(t)}},
		containers[0].(map[string]any)["env"])
}

func runtimeToken(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	s := e.create(t, agentRuntime, "echo")
	e.tokenFor(t, s.SessionID, e.invokeAs(t, agentRuntime, "echo", s.SessionID))
}

func callersToken(t *testing.T, e *env) {
	e.apply(t, interpreterTemplate("open", 0))
	s := e.create(t, codeInterpreter, "open")
	echo := e.invokeAs(t, codeInterpreter, "open", s.SessionID)
	assert.Equal(t, []string{"Bearer callers-own"}, echo.Headers.Values("Authorization"))
	assert.Empty(t, e.echoes(t, codeInterpreter, "open", s.SessionID).Headers.Values("Authorization"))
}

func unsignable(t *testing.T, e *env) {
	e.apply(t, picodTemplate("picod"))
	s := e.create(t, codeInterpreter, "picod")
	id := e.plant(t, s.SessionID, func(row map[string]any) { row["keyId"] = strings.Repeat("0", 16) })
	a := e.invoke(t, codeInterpreter, "picod", id, "/x")
	told := routerRefuses(t, a, http.StatusInternalServerError, api.CodeJWTSigningFailed)
	namesSession(t, a, id)
	assert.NotContains(t, told.Error, fmt.Sprint(strings.Repeat("0", 16)), "internal detail")
}
