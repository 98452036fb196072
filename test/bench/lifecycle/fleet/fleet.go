// Package fleet says what each of many sessions is like, as a row of the store
// and as an object of the cluster, so that two processes that know its size and
// its start agree on all of them without talking.
//
// Even sessions are direct Sandboxes, odd ones are SandboxClaims that have
// adopted a Sandbox of a pool.
package fleet

import (
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

const (
	// namespaces that the sessions are spread over.
	namespaces = 20
	// port that each sandbox serves.
	port = 8080
	// idleTimeout is far beyond any measurement.
	idleTimeout = 24 * time.Hour
	// directWorkload and pooledWorkload are the templates of all sessions.
	directWorkload = "bench-runtime"
	pooledWorkload = "bench-interpreter"
)

// Fleet is a number of sessions that were all created at one time.
type Fleet struct {
	Size         int
	Created      time.Time
	Installation string
}

// id makes a UUID that depends on its arguments alone.
func id(what string, i int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(what+strconv.Itoa(i))).String()
}

// name is a DNS label of the length that names of sessions have.
func name(prefix string, i int) string { return fmt.Sprintf("%s-%08d", prefix, i) }

// Namespace of session i.
func Namespace(i int) string { return fmt.Sprintf("tenant-%02d", i%namespaces) }

// SessionID of session i.
func SessionID(i int) string { return id("session", i) }

// ResourceVersion of the object of session i.
func ResourceVersion(i int) int64 { return int64(1000 + i) }

// LastResourceVersion is no lower than that of any object.
func (f Fleet) LastResourceVersion() int64 { return ResourceVersion(f.Size) }

// Pooled reports whether session i has taken its sandbox from a pool.
func Pooled(i int) bool { return i%2 == 1 }

func address(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16&0xff, i>>8&0xff, i&0xff) }

func (f Fleet) object(i int) session.ObjectRef {
	if Pooled(i) {
		return session.ObjectRef{
			Kind: session.KindSandboxClaim, Namespace: Namespace(i),
			Name: name(pooledWorkload, i), UID: id("object", i),
		}
	}
	return session.ObjectRef{
		Kind: session.KindSandbox, Namespace: Namespace(i),
		Name: name(directWorkload, i), UID: id("object", i),
	}
}

func (f Fleet) workload(i int) session.WorkloadRef {
	if Pooled(i) {
		return session.WorkloadRef{Kind: session.KindCodeInterpreter, Namespace: Namespace(i), Name: pooledWorkload}
	}
	return session.WorkloadRef{Kind: session.KindAgentRuntime, Namespace: Namespace(i), Name: directWorkload}
}

// adopted is the Sandbox that serves session i.
func (f Fleet) adopted(i int) session.SandboxRef {
	if Pooled(i) {
		return session.SandboxRef{Name: name(pooledWorkload+"-pool", i), UID: id("sandbox", i)}
	}
	o := f.object(i)
	return session.SandboxRef{Name: o.Name, UID: o.UID}
}

// Session is what the row of session i holds: ready, and in step with its
// object.
func (f Fleet) Session(i int) session.Session {
	return session.Session{
		ID:              SessionID(i),
		Object:          f.object(i),
		Workload:        f.workload(i),
		Sandbox:         f.adopted(i),
		Ports:           []session.Port{{Path: "/", Protocol: "HTTP", Port: port}},
		EntryPoints:     []session.EntryPoint{{Path: "/", Protocol: "HTTP", Endpoint: fmt.Sprintf("%s:%d", address(i), port)}},
		CreatedAt:       f.Created,
		IdleTimeout:     idleTimeout,
		State:           session.StateReady,
		AuthMode:        session.AuthModePicoD,
		Creator:         session.Creator{Process: "bench", Token: id("token", i)},
		Installation:    f.Installation,
		Generation:      1,
		ResourceVersion: strconv.FormatInt(ResourceVersion(i), 10),
	}
}

func (f Fleet) spec(i int) sandbox.Spec {
	spec := sandbox.Spec{
		Object: f.object(i), SessionID: SessionID(i), Workload: f.workload(i),
		Installation: f.Installation, IdleTimeout: idleTimeout,
	}
	if Pooled(i) {
		spec.WorkloadUID = id("workload", i%namespaces)
	} else {
		spec.Pod = podTemplate()
	}
	return spec
}
