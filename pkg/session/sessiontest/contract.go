package sessiontest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
)

// Subject is a store under test, empty, with the view past its methods that
// the contract needs.
type Subject struct {
	Store
	// Put writes a row as it is, and no index entry.
	Put func(*testing.T, session.Session)
	// Indexes reads all index entries.
	Indexes func(*testing.T) Indexes
	// Rows reads all rows.
	Rows func(*testing.T) map[string]session.Session
}

// Run holds a store to the contract. Each case gets a store of its own.
func Run(t *testing.T, subject func(*testing.T) Subject) {
	groups := map[string]map[string]func(*testing.T, Subject){
		"create":   createCases,
		"update":   updateCases,
		"end":      endCases,
		"remove":   removeCases,
		"ended":    endedCases,
		"look":     lookCases,
		"keep":     keepCases,
		"activity": activityCases,
		"queue":    queueCases,
		"index":    indexCases,
		"process":  processCases,
		"scan":     scanCases,
		"list":     listCases,
	}
	for group, cases := range groups {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			for behaviour, check := range cases {
				t.Run(behaviour, func(t *testing.T) {
					t.Parallel()
					check(t, subject(t))
				})
			}
		})
	}
}

// check asserts that rows and indexes agree.
func (s Subject) check(t *testing.T) {
	t.Helper()
	now, err := s.Now(t.Context())
	require.NoError(t, err)
	CheckIndexes(t, s.Rows(t), s.Indexes(t), now, 0)
}

// now is the store's clock, in full seconds.
func (s Subject) now(t *testing.T) time.Time {
	t.Helper()
	now, err := s.Now(t.Context())
	require.NoError(t, err)
	return floor(now)
}

// create writes a session that is still being created.
func (s Subject) create(t *testing.T, n int, change ...func(*session.Session)) session.Session {
	t.Helper()
	row := Reserved(n, s.now(t))
	for _, c := range change {
		c(&row)
	}
	created, err := s.Create(t.Context(), row)
	require.NoError(t, err)
	return created
}

// ready writes a session and commits it.
func (s Subject) ready(t *testing.T, n int, change ...func(*session.Session)) session.Session {
	t.Helper()
	row := s.create(t, n, change...)
	row, err := s.Update(t.Context(), row.ID, session.Commit(row.Creator.Token, Ready(row, "10.0.0.7")))
	require.NoError(t, err)
	return row
}

// ID is the nth session id.
func ID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }

// Reserved is a session as provisioning reserves it: creating, with a lifetime
// of 8 h and an idle timeout of 15 min.
func Reserved(n int, created time.Time) session.Session {
	return session.Session{
		ID:          ID(n),
		Object:      session.ObjectRef{Kind: session.KindSandbox, Namespace: "default", Name: fmt.Sprintf("echo-%08d", n)},
		Workload:    session.WorkloadRef{Kind: session.KindAgentRuntime, Namespace: "default", Name: "echo"},
		Ports:       []session.Port{{Path: "/", Protocol: session.ProtocolHTTP, Port: 8080}},
		OwnerID:     "owner",
		CreatedAt:   created,
		ExpiresAt:   created.Add(8 * time.Hour),
		IdleTimeout: 15 * time.Minute,
		MaxDuration: 8 * time.Hour,
		State:       session.StateCreating,
		Metadata:    json.RawMessage(`{"n": 12345678901234567890}`),
		Creator:     session.Creator{Process: "process", Token: fmt.Sprintf("token-%d", n)},
	}
}

// Ready is what the cluster shows of a session's object once it is ready.
func Ready(s session.Session, address string) session.Observed {
	object := s.Object
	object.UID = "uid-" + s.ID
	return session.Observed{
		State:           session.StateReady,
		Object:          object,
		Sandbox:         session.SandboxRef{Name: object.Name, UID: object.UID},
		Address:         address,
		ResourceVersion: "7",
	}
}

// always is a guard that lets everything be removed.
func always(session.Session) error { return nil }

// count is a change that is not idempotent, so that a lost one shows.
func count(s *session.Session) error {
	s.Attempts++
	return nil
}

// cancelled is a context that has ended.
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
