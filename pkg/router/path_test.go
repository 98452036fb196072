package router

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
)

func TestParseInvocation(t *testing.T) {
	t.Parallel()
	ref := func(kind, namespace, name string) session.WorkloadRef {
		return session.WorkloadRef{Kind: kind, Namespace: namespace, Name: name}
	}
	for sentence, c := range map[string]struct {
		path string
		want invocation
		ok   bool
	}{
		"an agent runtime":                 {"/v1/namespaces/n/agent-runtimes/a/invocations/x", invocation{ref("AgentRuntime", "n", "a"), "/x"}, true},
		"a code interpreter":               {"/v1/namespaces/n/code-interpreters/a/invocations/x", invocation{ref("CodeInterpreter", "n", "a"), "/x"}, true},
		"nothing after the slash":          {"/v1/namespaces/n/agent-runtimes/a/invocations/", invocation{ref("AgentRuntime", "n", "a"), "/"}, true},
		"no slash":                         {"/v1/namespaces/n/agent-runtimes/a/invocations", invocation{ref("AgentRuntime", "n", "a"), ""}, true},
		"the rest is not touched":          {"/v1/namespaces/n/agent-runtimes/a/invocations//b%2F../%c;d", invocation{ref("AgentRuntime", "n", "a"), "//b%2F../%c;d"}, true},
		"names are decoded":                {"/v1/namespaces/%6e/agent-runtimes/a%2Fb/invocations/", invocation{ref("AgentRuntime", "n", "a/b"), "/"}, true},
		"a longer word than invocations":   {path: "/v1/namespaces/n/agent-runtimes/a/invocationsx/"},
		"an unknown kind":                  {path: "/v1/namespaces/n/pods/a/invocations/"},
		"an empty namespace":               {path: "/v1/namespaces//agent-runtimes/a/invocations/"},
		"an empty name":                    {path: "/v1/namespaces/n/agent-runtimes//invocations/"},
		"a dot as the name":                {path: "/v1/namespaces/n/agent-runtimes/./invocations/"},
		"two escaped dots as the name":     {path: "/v1/namespaces/n/agent-runtimes/%2e%2e/invocations/"},
		"a bad escape in the name":         {path: "/v1/namespaces/n/agent-runtimes/%zz/invocations/"},
		"two slashes at the start":         {path: "//v1/namespaces/n/agent-runtimes/a/invocations/"},
		"no invocations at all":            {path: "/v1/namespaces/n/agent-runtimes/a"},
		"an empty path":                    {path: ""},
		"an escaped slash before the kind": {path: "/v1/namespaces/n%2Fagent-runtimes/a/invocations/"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got, ok := parseInvocation(c.path)
			require.Equal(t, c.ok, ok)
			assert.Equal(t, c.want, got)
		})
	}
}

// targets are what may follow /invocations.
var targets = []string{
	"/", "//", "//a//b/", "/a%2Fb", "/a%2fb", "/../x", "/a/./b", "/a/..", "/a;b=c", "/a+b", "/a%20b", "/%61",
	"/%E2%82%AC", "/€", "/a|b", `/a"b`, "/a:b@c,d=e!$&'()*~", "/a%3Fb", "/a%23b", "/a[1]", "/a^b`{c}",
	"/a?", "/?", "/a?x=1;y=2", "/a?x=%zz", "/a?x=1&&y&", "/a?x=a+b%2Bc", "/a?b?c", "/a?=&=", "/a?€", "/a?x=a/../b//",
	"/a?x-agentcube-session=1", "/a?x=x-agentcube-session-id", "/a#b", "/a?b#c",
}

func TestPathAndQueryReachTheSandboxByteForByte(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, nil)
	id := r.ready(s.endpoint())
	for _, target := range targets {
		res := r.raw("GET "+echoPath+target+" HTTP/1.1", api.HeaderSessionID+": "+id)
		require.Equal(t, http.StatusOK, res.StatusCode, target)
		assert.Equal(t, target, s.last(t).RequestURI)
	}
}

func TestATargetThatLooksLikeAnAuthorityStaysAPath(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, nil)
	id := r.ready(s.endpoint())

	res := r.raw("GET "+echoPath+"//other|host/x HTTP/1.1", api.HeaderSessionID+": "+id)

	require.Equal(t, http.StatusOK, res.StatusCode)
	got := s.last(t)
	assert.Equal(t, "//other|host/x", got.URL.Path)
	assert.Equal(t, s.endpoint(), got.Host)
}

func TestAWholeURLInTheRequestLineIsRouted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, nil)
	id := r.ready(s.endpoint())

	res := r.raw("GET http://router.test"+echoPath+"/a%2Fb?c HTTP/1.1", api.HeaderSessionID+": "+id)

	require.Equal(t, http.StatusOK, res.StatusCode)
	assert.Equal(t, "/a%2Fb?c", s.last(t).RequestURI)
}

func TestASpaceInAnHTTP2TargetIsEscaped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, nil)
	req := r.request(http.MethodGet, echoPath+"/x", r.ready(s.endpoint()), nil)
	req.URL.Opaque, req.URL.RawQuery = echoPath+"/a b HTTP/1.1", "c d"

	res, err := h2(t).Do(req)

	require.NoError(t, err)
	_ = res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	assert.Equal(t, "/a%20b%20HTTP/1.1?c%20d", s.last(t).RequestURI)
}

func TestTheMissingSlashIsAdded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for sentence, c := range map[string]struct {
		method, query string
		status        int
	}{
		"a GET":              {http.MethodGet, "", http.StatusMovedPermanently},
		"a HEAD":             {http.MethodHead, "", http.StatusMovedPermanently},
		"a POST keeps on":    {http.MethodPost, "", http.StatusTemporaryRedirect},
		"an unknown method":  {"PURGE", "", http.StatusTemporaryRedirect},
		"a query is kept":    {http.MethodGet, "?a=b%2F&c;d", http.StatusMovedPermanently},
		"a bare mark, too":   {http.MethodGet, "?", http.StatusMovedPermanently},
		"a query with marks": {http.MethodPut, "?a?b/../c", http.StatusTemporaryRedirect},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			res := r.raw(c.method + " " + echoPath + c.query + " HTTP/1.1")
			assert.Equal(t, c.status, res.StatusCode)
			assert.Equal(t, echoPath+"/"+c.query, res.Header.Get("Location"))
			assert.Zero(t, r.creator.count())
		})
	}
}

func FuzzPathAndQueryAreKept(f *testing.F) {
	for _, target := range targets {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		path, query, marked := strings.Cut(target, "?")
		if !strings.HasPrefix(path, "/") {
			t.Skip()
		}
		inv, ok := parseInvocation(echoPath + path)
		require.True(t, ok)
		require.Equal(t, path, inv.path)
		var u url.URL
		setTarget(&u, destination{scheme: "http", endpoint: "10.0.0.7:8080"}, inv.path, query, marked)
		line := u.RequestURI()
		assert.Equal(t, target, strings.TrimPrefix(line, "http://10.0.0.7:8080"))
	})
}
