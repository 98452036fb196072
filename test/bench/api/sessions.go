package main

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/agentcube/agentcube/pkg/session"
)

// What the sessions are spread over.
const (
	namespaces = 20
	owners     = 100
	// apart are the times of creation of two sessions in a row.
	apart = 30 * time.Millisecond
)

// states of a hundred sessions in a row; the others are ready.
var states = map[int]session.State{
	7: session.StateCreating, 13: session.StateNotReady, 23: session.StateSuspended, 53: session.StateNotReady, 77: session.StateDeleting,
}

func namespace(i int) string { return fmt.Sprintf("tenant-%02d", i%namespaces) }

func owner(i int) string { return fmt.Sprintf("owner-%03d@example.com", i/namespaces%owners) }

// workload of session i: those of even namespaces are of one kind, the others
// of the other, so that kind and namespace can have nothing in common.
func workload(i int) session.WorkloadRef {
	w := session.WorkloadRef{Kind: session.KindAgentRuntime, Namespace: namespace(i), Name: "bench-runtime"}
	if i%2 == 1 {
		w.Kind, w.Name = session.KindCodeInterpreter, "bench-interpreter"
	}
	return w
}

// sessionAt is session i of those that begin to be created at the given time.
func sessionAt(i int, begin time.Time) session.Session {
	id := func(what string) string {
		return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s-%d", what, i)).String()
	}
	created := begin.Add(time.Duration(i) * apart)
	s := session.Session{
		ID:          id("session"),
		Workload:    workload(i),
		Object:      session.ObjectRef{Kind: session.KindSandbox, Namespace: namespace(i), Name: fmt.Sprintf("bench-%08d", i), UID: id("object")},
		Sandbox:     session.SandboxRef{Name: fmt.Sprintf("bench-%08d", i), UID: id("object")},
		Ports:       []session.Port{{Path: "/", Protocol: session.ProtocolHTTP, Port: 8080}},
		EntryPoints: []session.EntryPoint{{Path: "/", Protocol: session.ProtocolHTTP, Endpoint: "10.0.0.7:8080"}},
		OwnerID:     owner(i),
		CreatedAt:   created, ExpiresAt: created.Add(8 * time.Hour), MaxDuration: 8 * time.Hour, IdleTimeout: 15 * time.Minute,
		State:    session.StateReady,
		AuthMode: session.AuthModePicoD, KeyID: id("key"),
		Creator: session.Creator{Process: "bench", Token: id("token")}, Installation: id("installation"),
		Generation: 1, ResourceVersion: fmt.Sprint(1000 + i),
	}
	if state, ok := states[i%100]; ok {
		s.State = state
	}
	return s
}
