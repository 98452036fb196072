package router

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api/openapi/openapitest"
)

func TestRoutesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	var routes []string
	require.NoError(t, newRig(t).router.WalkFixed(func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routes = append(routes, method+" "+route)
		return nil
	}))
	slices.Sort(routes)
	described := slices.DeleteFunc(openapitest.Router.Operations(), func(o string) bool { return strings.Contains(o, "/invocations") })
	assert.Equal(t, described, routes)
	r := newRig(t)
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		r.do(r.request(method, path, "", nil)) // which holds the answer against the document
	}
}
