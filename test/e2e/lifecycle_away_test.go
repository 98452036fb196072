package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/chaos/proxy"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// awayBehaviours are about what is to be taken away while a dependency is out
// of reach.
var awayBehaviours = []behaviour{
	{"an undo that cannot reach the API server is done when it is back", undoneLater},
	{"a DELETE without the store or the API server says so, and a later one works", deletedLater},
}

// outages are the two ways in which a dependency is out of reach.
var outages = map[string]func(*proxy.Proxy){"silent": (*proxy.Proxy).Freeze, "refusing": (*proxy.Proxy).Refuse}

func undoneLater(t *testing.T, e *env) {
	s := e.site(t)
	s.addManager(t, "--undo-timeout=2s", "--cluster-timeout=1s")
	for _, w := range ways {
		w.prepare(t, s.env, w.name(), node.NeverReady, "true")
	}
	for outage, takeAway := range outages {
		t.Log(outage)
		var ids []string
		var callers []*caller
		for _, w := range ways {
			callers = append(callers, s.call(t, http.MethodPost, w.route, s.order(w.name())))
			ids = append(ids, sessionID(s.waiting(t, w)))
		}
		takeAway(s.toAPIServer)
		for i, c := range callers {
			c.hangUp()
			c.letGo(t, s.Manager())
			require.Eventually(t, func() bool {
				return len(loggedFor(t, s.Manager(), "what a request left behind could not be cleaned up yet", ids[i])) > 0
			}, settle, pollInterval, "the undo has not given up")
			row, ok := s.row(t, ids[i])
			require.True(t, ok, "nothing names the object any more")
			assert.Equal(t, "deleting", row["status"])
		}
		require.Len(t, s.objects(t), len(ids), "nobody could delete them")
		require.NoError(t, s.toAPIServer.Thaw())
		for _, id := range ids {
			s.gone(t, id)
		}
		s.clean(t)
	}
}

func deletedLater(t *testing.T, e *env) {
	s := e.site(t)
	s.addManager(t, "--undo-timeout=3s", "--cluster-timeout=1s", "--store-timeout=1s")
	for _, w := range ways {
		w.prepare(t, s.env, w.name())
	}
	for code, way := range map[string]*proxy.Proxy{
		api.CodeStoreUnavailable: s.toStore, api.CodeClusterUnavailable: s.toAPIServer,
	} {
		for outage, takeAway := range outages {
			t.Log(code, outage)
			var ids []string
			for _, w := range ways {
				ids = append(ids, s.create(t, w.route, w.name()).SessionID)
			}
			takeAway(way)
			answers := s.deleteAll(t, ids)
			require.NoError(t, way.Thaw())
			for _, a := range answers {
				fails(t, a, http.StatusServiceUnavailable, code)
			}
			serving(t, s.Manager().URL)
			for _, id := range ids {
				s.ends(t, id)
			}
			s.clean(t)
		}
	}
}

// deleteAll sends a DELETE for each session at once.
func (e *env) deleteAll(t *testing.T, ids []string) []answer {
	t.Helper()
	answers, errs := make([]answer, len(ids)), make(chan error, len(ids))
	for i, id := range ids {
		go func() {
			var err error
			answers[i], err = send(t.Context(), http.MethodDelete, e.Manager().URL+deletePath(id), nil, "")
			errs <- err
		}()
	}
	for range ids {
		require.NoError(t, <-errs)
	}
	return answers
}

// ends wants a DELETE to work. A connection that was silent and is not any more
// carries what was sent in vain: then the session is gone already.
func (e *env) ends(t *testing.T, id string) {
	t.Helper()
	if a := e.delete(t, id); a.status != http.StatusOK {
		fails(t, a, http.StatusNotFound, api.CodeSessionNotFound)
	}
	e.gone(t, id)
}
