package workloadmanager

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
)

// Index finds sessions.
type Index interface {
	// List returns a page of the sessions that a query asks for.
	List(ctx context.Context, q session.Query) (session.Page, error)
}

// list answers GET /v1/sessions.
func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	only, err := s.visible(r)
	if err != nil {
		return err
	}
	query, err := parseQuery(r.URL.RawQuery, only)
	if err != nil {
		return err
	}
	page, err := s.Index.List(r.Context(), query)
	if err != nil {
		return err
	}
	response := api.SessionList{Items: make([]api.Session, len(page.Sessions))}
	for i, listed := range page.Sessions {
		response.Items[i] = sessionOf(listed.Session, listed.LastActivity)
	}
	if page.Next != (session.Position{}) {
		response.Cursor = encodeCursor(query, page.Next)
	}
	writeJSON(w, http.StatusOK, response)
	return nil
}

// visible is the owner whose sessions are all that the caller may list. Empty:
// those of everybody, which is what every caller may, whoever it says it is.
func (s *Server) visible(r *http.Request) (owner string, err error) {
	_, err = s.owner(r)
	return "", err
}

// parseQuery reads what to list. only is the owner that the query is pinned to;
// empty: none.
func parseQuery(raw, only string) (session.Query, error) {
	values, err := parameters(raw)
	if err != nil {
		return session.Query{}, err
	}
	q := session.Query{
		Namespace: values[api.ParamNamespace], Kind: values[api.ParamKind], Name: values[api.ParamName],
		State: session.State(values[api.ParamState]), Owner: values[api.ParamOwner],
		Limit: api.DefaultListLimit,
	}
	if err := checkQuery(q); err != nil {
		return q, err
	}
	if limit, ok := values[api.ParamLimit]; ok {
		if q.Limit, err = strconv.Atoi(limit); err != nil || strconv.Itoa(q.Limit) != limit || q.Limit < 1 || q.Limit > api.MaxListLimit {
			return q, invalid(fmt.Sprintf("limit must be a whole number from 1 to %d", api.MaxListLimit))
		}
	}
	if only != "" && q.Owner != "" && q.Owner != only {
		return q, &requestError{
			status: http.StatusForbidden, code: api.CodeForbidden, message: "only your own sessions can be listed",
		}
	}
	if only != "" {
		q.Owner = only
	}
	if cursor := values[api.ParamCursor]; cursor != "" {
		if q.After, err = decodeCursor(q, cursor); err != nil {
			return q, invalid("cursor is " + err.Error())
		}
	}
	return q, nil
}

// parameters reads a query string strictly. A filter that is misspelt, or lost
// because a variable was empty, would list, and have whoever works through the
// list touch, more than was meant.
func parameters(raw string) (map[string]string, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &requestError{
			status: http.StatusBadRequest, code: api.CodeInvalidRequest, message: "query string is malformed", err: err,
		}
	}
	allowed := []string{
		api.ParamNamespace, api.ParamKind, api.ParamName, api.ParamState, api.ParamOwner, api.ParamLimit, api.ParamCursor,
	}
	values := make(map[string]string, len(query))
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch given := query[name]; {
		case !slices.Contains(allowed, name):
			return nil, invalid(fmt.Sprintf("unknown query parameter %.64q: there are %s", name, strings.Join(allowed, ", ")))
		case len(given) > 1:
			return nil, invalid(name + " is given more than once")
		case given[0] == "" && name != api.ParamCursor:
			return nil, invalid(name + " must not be empty")
		default:
			values[name] = given[0]
		}
	}
	return values, nil
}

func checkQuery(q session.Query) error {
	if q.Namespace != "" {
		if err := checkNamespace(q.Namespace); err != nil {
			return err
		}
	}
	if q.Kind != "" && q.Kind != session.KindAgentRuntime && q.Kind != session.KindCodeInterpreter {
		return invalid(fmt.Sprintf("kind must be %s or %s", session.KindAgentRuntime, session.KindCodeInterpreter))
	}
	if q.Name != "" {
		if err := checkName(q.Name); err != nil {
			return err
		}
	}
	if q.State != "" && !slices.Contains(session.States, q.State) {
		return invalid(fmt.Sprintf("state must be one of %s", joined(session.States)))
	}
	return nil
}

func joined[T ~string](values []T) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(v))
	}
	return b.String()
}
