package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestARouteIsWhatARouterNeedsOfARow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := Session{
		ID: "i", Workload: WorkloadRef{"AgentRuntime", "n", "w"}, OwnerID: "o", ExpiresAt: now, State: StateReady,
		EntryPoints: []EntryPoint{{"/", ProtocolHTTP, "10.0.0.7:80"}}, AuthMode: AuthModePicoD, KeyID: "k", Generation: 7,
		Message: "for others", Revision: 3,
	}
	r := RouteOf(s)
	assert.Equal(t, &Route{
		ID: "i", Workload: WorkloadRef{"AgentRuntime", "n", "w"}, OwnerID: "o", ExpiresAt: now, State: StateReady,
		EntryPoints: []EntryPoint{{"/", ProtocolHTTP, "10.0.0.7:80"}}, AuthMode: AuthModePicoD, KeyID: "k", Generation: 7,
		Revision: 3,
	}, r)
	for _, at := range []time.Time{now.Add(-1), now, now.Add(1)} {
		assert.Equal(t, s.Expired(at), r.Expired(at), at)
	}
	r.ExpiresAt = time.Time{}
	assert.False(t, r.Expired(now), "unlimited")
}
