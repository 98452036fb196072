package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agentcube/agentcube/pkg/api"
)

// Kind of workload that sessions are made from.
type Kind string

// Kinds of workload.
const (
	AgentRuntime    Kind = "AgentRuntime"
	CodeInterpreter Kind = "CodeInterpreter"
)

// createRoutes of the workload-manager, and invocations' part of the router's
// path, by kind.
var (
	createRoutes = map[Kind]string{AgentRuntime: "/v1/agent-runtime", CodeInterpreter: "/v1/code-interpreter"}
	invokeParts  = map[Kind]string{AgentRuntime: "agent-runtimes", CodeInterpreter: "code-interpreters"}
)

const sessionsRoute = "/v1/sessions"

// CreateOptions say what session is wanted.
type CreateOptions struct {
	Kind            Kind
	Namespace, Name string
	// TTL caps the life, in full seconds. Zero: the template's.
	TTL time.Duration
	// IdleTimeout in full seconds. Zero: the template's.
	IdleTimeout time.Duration
	// Metadata is kept with the session; an object of at most 4 KiB.
	Metadata json.RawMessage
	// Key is the Idempotency-Key, at most 255 bytes: all creates with it get one
	// session, also those of another process. Empty: one is made for this call,
	// so that its repeats get one session.
	Key string
	// Undo sends no key. Then the workload-manager undoes the session if ctx ends
	// before it has answered, and the create is sent once. With a key, the
	// session stays for whoever comes back with it.
	Undo bool
	// Async asks to be answered before the session is ready, in the state
	// creating. A workload-manager that cannot do that answers when it is.
	Async bool
}

// Create makes a session and returns it once it is ready, or with Async as soon
// as it has an id; see WaitReady.
func (c *Client) Create(ctx context.Context, o CreateOptions) (api.CreateResponse, error) {
	doing := fmt.Sprintf("creating a session of %s %s/%s", o.Kind, o.Namespace, o.Name)
	route, known := createRoutes[o.Kind]
	if !known {
		return api.CreateResponse{}, fmt.Errorf("%s: there is no such kind", doing)
	}
	body := api.CreateRequest{
		Name: o.Name, Namespace: o.Namespace, Metadata: o.Metadata,
		TTL: seconds(o.TTL), IdleTimeout: seconds(o.IdleTimeout),
	}
	got, err := c.do(ctx, call{
		doing: doing, method: http.MethodPost, path: route, body: body,
		header: o.header(), max: maxAnswer, once: o.Undo,
	})
	if err != nil {
		return api.CreateResponse{}, err
	}
	created, err := readCreated(got, o.Async)
	if err != nil {
		return api.CreateResponse{}, fmt.Errorf("%s: %w", doing, err)
	}
	return created, nil
}

func (o CreateOptions) header() http.Header {
	h := http.Header{}
	key := o.Key
	if key == "" {
		key = rand.Text()
	}
	if !o.Undo {
		h.Set(api.HeaderIdempotencyKey, key)
	}
	if o.Async {
		h.Set(api.HeaderPrefer, api.PreferAsync)
	}
	return h
}

// readCreated: 202 is an answer to those only who asked for it.
func readCreated(got answer, async bool) (api.CreateResponse, error) {
	var created api.CreateResponse
	if got.status != http.StatusOK && (!async || got.status != http.StatusAccepted) {
		return created, fmt.Errorf("%w: status %d", ErrAnswer, got.status)
	}
	if got.status == http.StatusAccepted {
		created.State = api.StateCreating
		_, created.SessionID, _ = strings.Cut(got.header.Get("Location"), sessionsRoute+"/")
	}
	if got.status == http.StatusOK || len(got.body) > 0 {
		if err := got.decode(&created); err != nil {
			return created, err
		}
	}
	if created.SessionID == "" {
		return created, fmt.Errorf("%w: it names no session", ErrAnswer)
	}
	return created, nil
}

// seconds rounds up, so that a session never lives shorter than was asked for.
// Zero: nil.
func seconds(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	n := int64((d + time.Second - 1) / time.Second)
	return &n
}
