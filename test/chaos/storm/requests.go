package storm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/test/chaos/check"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// The routes that create, by the kind of workload, and the router's word for it.
var (
	createRoutes = map[string]string{
		session.KindAgentRuntime: "/v1/agent-runtime", session.KindCodeInterpreter: "/v1/code-interpreter",
	}
	routerKinds = map[string]string{
		session.KindAgentRuntime: "agent-runtimes", session.KindCodeInterpreter: "code-interpreters",
	}
)

// reply is what came back.
type reply struct {
	status int
	code   string
	header http.Header
	body   []byte
	err    error
}

// String names the outcome, for the mix.
func (r reply) String() string {
	switch {
	case errors.Is(r.err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(r.err, context.DeadlineExceeded), errors.Is(r.err, context.Canceled):
		return "no answer waited for"
	case r.err != nil:
		return "connection broken"
	case r.code != "":
		return fmt.Sprintf("%d %s", r.status, r.code)
	default:
		return fmt.Sprint(r.status)
	}
}

// outcome of a request to end a session: one that was never sent or that was
// refused for good has done nothing.
func (r reply) outcome() outcome {
	switch {
	case r.err == nil && r.status == http.StatusOK:
		return granted
	case errors.Is(r.err, syscall.ECONNREFUSED), r.err == nil && r.status == http.StatusNotFound:
		return harmless
	default:
		return unclear
	}
}

func (w *World) send(ctx context.Context, method, url string, header http.Header, body string) reply {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	for k, v := range header {
		request.Header[k] = v
	}
	response, err := w.http.Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	r := reply{status: response.StatusCode, header: response.Header, body: received, err: err}
	var told struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(received, &told) == nil {
		r.code = told.Code
	}
	return r
}

// create asks a workload-manager for a session. extra is further JSON.
func (w *World) create(ctx context.Context, i int, workload session.WorkloadRef, extra string) (reply, api.CreateResponse) {
	body := fmt.Sprintf(`{"namespace":%q,"name":%q%s}`, workload.Namespace, workload.Name, extra)
	r := w.ofEither(ctx, i, http.MethodPost, createRoutes[workload.Kind], body)
	if r.err == nil && r.status == http.StatusServiceUnavailable {
		// Nothing was created: whoever wants a session asks again.
		r = w.ofEither(ctx, 1-i, http.MethodPost, createRoutes[workload.Kind], body)
	}
	var created api.CreateResponse
	if r.err == nil && r.status == http.StatusOK {
		if err := json.Unmarshal(r.body, &created); err != nil {
			r.err = err
		}
	}
	return r, created
}

// end asks a workload-manager to delete a session.
func (w *World) end(ctx context.Context, i int, id string) reply {
	return w.ofEither(ctx, i, http.MethodDelete, "/v1/agent-runtime/sessions/"+id, "")
}

// ofSession asks a workload-manager about one session.
func (w *World) ofSession(ctx context.Context, i int, method, id, what, body string) reply {
	return w.ofEither(ctx, i, method, "/v1/sessions/"+id+what, body)
}

// ofEither asks a workload-manager, or the other one if nobody listens there,
// as the Service in front of both does.
func (w *World) ofEither(ctx context.Context, i int, method, path, body string) reply {
	r := w.send(ctx, method, w.managers[i].URL+path, nil, body)
	if errors.Is(r.err, syscall.ECONNREFUSED) {
		r = w.send(ctx, method, w.managers[1-i].URL+path, nil, body)
	}
	return r
}

// invoke sends a request through the router; without an id for a new session.
func (w *World) invoke(ctx context.Context, workload session.WorkloadRef, id string) reply {
	url := fmt.Sprintf("%s/v1/namespaces/%s/%s/%s/invocations/x", w.Router.URL,
		workload.Namespace, routerKinds[workload.Kind], workload.Name)
	header := http.Header{}
	if id != "" {
		header[http.CanonicalHeaderKey(api.HeaderSessionID)] = []string{id}
	}
	return w.send(ctx, http.MethodGet, url, header, "")
}

// asked is an invocation as the checker sees it.
func (w *World) asked(ctx context.Context, workload session.WorkloadRef, id string) check.Answer {
	r := w.invoke(ctx, workload, id)
	if r.err != nil {
		return check.Answer{Failure: r.err.Error()}
	}
	a := check.Answer{Status: r.status, Code: r.code, Session: r.header.Get(api.HeaderSessionID)}
	var echo node.Echo
	if r.status == http.StatusOK && json.Unmarshal(r.body, &echo) == nil {
		a.Pod, a.UID = echo.Pod, echo.UID
	}
	return a
}

func since(began time.Time) time.Duration { return time.Since(began).Round(time.Millisecond) }
