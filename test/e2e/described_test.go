package e2e

import (
	"net/http"
	"strings"

	"github.com/agentcube/agentcube/pkg/api/openapi/openapitest"
)

// described returns in what an answer of either service differs from its
// description. What is asked of others, as of a sandbox, is not described.
func described(r *http.Request, a answer) error {
	service := openapitest.WorkloadManager
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/v1/namespaces/"), strings.HasPrefix(path, "/health/"):
		service = openapitest.Router
	case strings.HasPrefix(path, "/v1/"), path == "/health", path == "/readyz", path == "/livez": // those of both are the same
	default:
		return nil
	}
	return service.Answer(r, openapitest.Answer{Status: a.status, Header: a.header, Body: []byte(a.body)})
}
