package router

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/session"
)

// routeInvocations is the pattern of an invocation, as records and metrics have
// it.
const routeInvocations = "/v1/namespaces/{namespace}/{kind}/{name}/invocations/*"

// invocations serves every request whose path, as sent, is an invocation, and
// passes on the others.
func (rt *Router) invocations(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, query, marked := rawTarget(r)
		inv, ok := parseInvocation(path)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		httpserver.RecordFrom(r.Context()).SetRoute(routeInvocations)
		if inv.path == "" {
			redirect(w, r, path, query, marked)
			return
		}
		rt.invoke(w, r, &exchange{invocation: inv, query: query, marked: marked})
	})
}

// redirect adds the missing slash. Only GET and HEAD may be repeated as a GET.
func redirect(w http.ResponseWriter, r *http.Request, path, query string, marked bool) {
	location := path + "/"
	if marked {
		location += "?" + query
	}
	status := http.StatusTemporaryRedirect
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		status = http.StatusMovedPermanently
	}
	http.Redirect(w, r, location, status)
}

// invoke is the life of one request: resolve, check, forward.
func (rt *Router) invoke(w http.ResponseWriter, r *http.Request, x *exchange) {
	if x.slot = rt.limiter.acquire(); x.slot == nil {
		rt.fail(w, r, x, errOverloaded)
		return
	}
	defer x.slot.release()
	if err := rt.prepare(r, x); err != nil {
		rt.fail(w, r, x, err)
		return
	}
	x.answer = w.Header()
	x.flight = rt.Activity.Begin(x.id)
	defer x.flight.End()
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		// Or else the server, when the sandbox begins to answer, reads up to
		// 256 KiB of the body and throws them away: the sandbox would get a
		// body with a hole in it.
		x.duplex = http.NewResponseController(w).EnableFullDuplex() == nil
	}
	record := httpserver.RecordFrom(r.Context())
	record.Carry(x) // to the proxy's hooks
	x.end = record.End
	defer x.releaseConn()
	rt.proxy.ServeHTTP(w, r)
}

// prepare fills the exchange in: caller, session, destination.
func (rt *Router) prepare(r *http.Request, x *exchange) (err error) {
	ctx := r.Context()
	if !httpguts.ValidHeaderFieldName(r.Method) { // HTTP/2 has let it in; before a session is made for it
		return fmt.Errorf("%w: %q", errRequestLine, r.Method)
	}
	if rt.Authenticator != nil {
		if x.user, err = rt.Authenticator.Authenticate(ctx, r.Header.Get("Authorization")); err != nil {
			return err
		}
	}
	ref := sessionReference(r.Header, x.query)
	if rest, values := cutParameter(x.query); len(values) > 0 {
		// A question mark that held nothing else goes with the parameter.
		x.query, x.marked = rest, rest != ""
	}
	if err := rt.resolve(ctx, x, ref); err != nil {
		return err
	}
	return rt.aim(x)
}

// resolve finds the session's row. A session that the caller names is never
// replaced by another one.
func (rt *Router) resolve(ctx context.Context, x *exchange, ref reference) (err error) {
	record := httpserver.RecordFrom(ctx)
	switch {
	case ref.given && ref.id == "":
		return &public{errSessionNotFound, "the session id is not valid"}
	case ref.given:
		x.id = ref.id
	default:
		if x.id, err = rt.Creator.Create(ctx, x.workload, x.user.Subject); err != nil {
			return err
		}
		x.created = true
	}
	record.SetSession(x.id)
	x.session, err = rt.lookup(ctx, rt.Store.Get, x.id)
	return err
}

// undo deletes a session that was made for a client which left before it was
// told the session's id: nobody else knows it.
func (rt *Router) undo(ctx context.Context, x *exchange) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if err := rt.Creator.Undo(ctx, x.workload, x.id, x.user.Subject); err != nil {
		rt.log.Warn("a session that nobody knows stays until it is idle for too long",
			zap.String("session", x.id), zap.Error(err))
	}
}

// lookup reads a row. An error of the store's is never taken for an absence.
func (rt *Router) lookup(
	ctx context.Context, get func(context.Context, string) (*session.Route, error), id string,
) (*session.Route, error) {
	s, err := get(ctx, id)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return nil, notFound(id)
	case errors.Is(err, session.ErrCorrupt):
		return nil, fmt.Errorf("reading session %s: %w", id, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errStore, err)
	}
	return s, nil
}
