package router

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/agentcube/agentcube/pkg/session"
)

// Kinds as they stand in a path.
var pathKinds = map[string]string{
	"agent-runtimes":    session.KindAgentRuntime,
	"code-interpreters": session.KindCodeInterpreter,
}

// invocation is what a request's path says.
type invocation struct {
	workload session.WorkloadRef
	// path is what follows /invocations, byte for byte. Empty: the slash is
	// missing.
	path string
}

// parseInvocation takes a path as it was sent apart:
//
//	/v1/namespaces/{ns}/agent-runtimes/{name}/invocations/{path…}
//
// Nothing is cleaned or decoded but the names: the path after /invocations
// belongs to the sandbox.
func parseInvocation(raw string) (invocation, bool) {
	rest, ok := strings.CutPrefix(raw, "/v1/namespaces/")
	if !ok {
		return invocation{}, false
	}
	namespace, rest, ok := cutName(rest)
	if !ok {
		return invocation{}, false
	}
	kind, rest, _ := strings.Cut(rest, "/")
	name, rest, ok := cutName(rest)
	if !ok || pathKinds[kind] == "" {
		return invocation{}, false
	}
	rest, ok = strings.CutPrefix(rest, "invocations")
	if !ok || (rest != "" && rest[0] != '/') {
		return invocation{}, false
	}
	return invocation{
		workload: session.WorkloadRef{Kind: pathKinds[kind], Namespace: namespace, Name: name},
		path:     rest,
	}, true
}

// cutName cuts the next segment off and decodes it. Whether it can name
// anything is for the workload-manager to say.
func cutName(path string) (name, rest string, ok bool) {
	segment, rest, ok := strings.Cut(path, "/")
	if !ok {
		return "", "", false
	}
	name, err := url.PathUnescape(segment)
	if err != nil || name == "" || name == "." || name == ".." {
		return "", "", false
	}
	return name, rest, true
}

// rawTarget returns path and query as they stand in the request line; marked
// reports a question mark. A request line with a whole URL (as proxies get
// it) has been taken apart by net/http. A space, which HTTP/2 has room for,
// would end the target in a request line, and is escaped.
func rawTarget(r *http.Request) (path, query string, marked bool) {
	if strings.HasPrefix(r.RequestURI, "/") {
		target := r.RequestURI
		if strings.Contains(target, " ") {
			target = strings.ReplaceAll(target, " ", "%20")
		}
		return strings.Cut(target, "?")
	}
	return r.URL.EscapedPath(), r.URL.RawQuery, r.URL.ForceQuery || r.URL.RawQuery != ""
}

// setTarget makes u a URL whose request line has path and query byte for byte:
// an opaque one, since net/url would escape what the client left bare ("|",
// UTF-8).
func setTarget(u *url.URL, to destination, path, query string, marked bool) {
	*u = url.URL{Scheme: to.scheme, Host: to.endpoint, Opaque: path, RawQuery: query, ForceQuery: marked}
	if !strings.HasPrefix(path, "//") {
		return
	}
	// What is opaque may not begin with two slashes.
	decoded, err := url.PathUnescape(path)
	u.Opaque, u.Path, u.RawPath = "", decoded, path
	if err != nil || u.EscapedPath() != path {
		u.Opaque = "//" + to.endpoint + path // the request line has to name the host too
	}
}
