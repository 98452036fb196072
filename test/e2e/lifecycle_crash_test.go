package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/test/cluster/node"
)

// crashBound is when nothing is left of a create whose workload-manager was
// killed.
const crashBound = time.Minute

// creatorKilled kills two creators at once: one whose fellow lives on, without
// the lease as yet, and one that is started again.
func creatorKilled(t *testing.T, e *env) {
	two, one := e.site(t), newEnv(t, e.System).site(t)
	two.addManager(t)
	two.addManager(t)
	one.addManager(t)
	left := map[*site][]string{}
	for _, s := range []*site{two, one} {
		for _, w := range ways {
			w.prepare(t, s.env, w.name(), node.NeverReady, "true")
			s.call(t, http.MethodPost, w.route, s.order(w.name()))
			left[s] = append(left[s], sessionID(s.waiting(t, w)))
		}
	}
	require.NoError(t, two.Manager().Kill())
	require.NoError(t, one.Manager().Kill())
	killed := time.Now()
	for s, ids := range left {
		require.Len(t, s.objects(t), len(ids), "nobody was there to undo it")
	}
	require.NoError(t, one.Manager().Start(t.Context()))
	for s, ids := range left {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Empty(c, s.rows(t), "rows")
			assert.Empty(c, s.objects(t), "objects")
			for _, id := range ids {
				assert.Empty(c, s.indexed(t, id), "index entries")
			}
		}, crashBound-time.Since(killed), pollInterval)
		t.Logf("nothing left %s after the kill", time.Since(killed).Round(time.Second))
	}
}
