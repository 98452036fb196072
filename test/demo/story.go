package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/cluster/node"
)

func (t *teller) prepare(ctx context.Context) error {
	t.begin("An operator installs two templates.")
	if err := t.kubectl(ctx, templates, "apply", "-f", "-"); err != nil {
		return err
	}
	return t.kubectl(ctx, nil, "wait", "--for=condition=WarmPoolReady", "codeinterpreter/python", "--timeout=60s")
}

// story is the main job from end to end. It returns an error as soon as a step
// is not as it should be.
func (t *teller) story(ctx context.Context) error {
	cold, err := t.create(ctx, "A developer asks for a session; a Sandbox is started for it.",
		"/v1/agent-runtime", `{"namespace":"default","name":"echo"}`, "Sandbox")
	if err != nil {
		return err
	}
	invocations := t.system.Router.URL + "/v1/namespaces/default/agent-runtimes/echo/invocations/hello?who=agent"
	if err := t.reach(ctx, invocations, cold.SessionID, cold.SandboxName); err != nil {
		return err
	}
	t.begin("Somebody deletes the sandbox behind AgentCube's back.")
	if err := t.kubectl(ctx, nil, "delete", "sandbox", cold.SandboxName); err != nil {
		return err
	}
	if err := t.gone(ctx, invocations, cold.SessionID); err != nil {
		return err
	}
	return t.warmStory(ctx)
}

func (t *teller) warmStory(ctx context.Context) error {
	warm, err := t.create(ctx, "A session of the CodeInterpreter takes a sandbox out of the warm pool.",
		"/v1/code-interpreter", `{"namespace":"default","name":"python","ttl":3600}`, "SandboxClaim")
	if err != nil {
		return err
	}
	invocations := t.system.Router.URL + "/v1/namespaces/default/code-interpreters/python/invocations/run"
	if err := t.reach(ctx, invocations, warm.SessionID, ""); err != nil {
		return err
	}
	t.begin("The developer ends it.")
	ended, err := t.request(ctx, http.MethodDelete,
		t.system.Manager().URL+"/v1/code-interpreter/sessions/"+warm.SessionID, "", "")
	if err != nil {
		return err
	}
	var deleted api.DeleteResponse
	if err := ended.expect(http.StatusOK, &deleted); err != nil {
		return err
	}
	return t.gone(ctx, invocations, warm.SessionID)
}

func (t *teller) create(ctx context.Context, what, route, body, kind string) (api.CreateResponse, error) {
	t.begin(what)
	var created api.CreateResponse
	got, err := t.request(ctx, http.MethodPost, t.system.Manager().URL+route, "", body)
	if err != nil {
		return created, err
	}
	if err := got.expect(http.StatusOK, &created); err != nil {
		return created, err
	}
	if created.Kind != kind || created.SessionID == "" || len(created.EntryPoints) == 0 {
		return created, fmt.Errorf("the answer is not that of a session on a %s", kind)
	}
	return created, nil
}

// reach wants the echo of the session's own pod. pod is its name, empty if the
// pool gave it.
func (t *teller) reach(ctx context.Context, url, session, pod string) error {
	t.begin("A request with the session's id reaches that sandbox through the router.")
	got, err := t.request(ctx, http.MethodPost, url, session, `{"input":"hi"}`)
	if err != nil {
		return err
	}
	var echo node.Echo
	if err := got.expect(http.StatusOK, &echo); err != nil {
		return err
	}
	if echo.Body != `{"input":"hi"}` || (pod != "" && echo.Pod != pod) {
		return fmt.Errorf("the answer is not the echo of pod %q", pod)
	}
	if id := got.header.Get(api.HeaderSessionID); id != session {
		return fmt.Errorf("the answer names session %q", id)
	}
	return nil
}

func (t *teller) gone(ctx context.Context, url, session string) error {
	t.begin("The next request is told the truth.")
	got, err := t.request(ctx, http.MethodPost, url, session, `{"input":"hi"}`)
	if err != nil {
		return err
	}
	var told api.RouterError
	if err := got.expect(http.StatusNotFound, &told); err != nil {
		return err
	}
	if told.Code != api.CodeSessionNotFound {
		return fmt.Errorf("code is %s, want %s", told.Code, api.CodeSessionNotFound)
	}
	return nil
}
