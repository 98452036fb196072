// Package check decides whether the store and the cluster agree, and whether
// what was done to each session is what became of it. It is pure: it compares
// two snapshots and a list of expectations, and has its own idea of what a row
// is, so that the programs' code is not the judge of itself.
//
// It takes no snapshots, waits for nothing and knows no programs.
package check

// The keys of the store, from the contract and the layout that pkg/store
// documents.
const (
	RowPrefix     = "session:"
	IndexExpiry   = "session:expiry"
	IndexActivity = "session:last_activity"
	IndexDue      = "agentcube:due"
	IndexCreating = "agentcube:creating"
)

// Indexes are all that a row can stand in.
var Indexes = []string{IndexExpiry, IndexActivity, IndexDue, IndexCreating}

// Snapshot is everything that is compared.
type Snapshot struct {
	Store    Store
	Cluster  Cluster
	Sessions []Expectation
	// Strangers are objects, as kind namespace/name, that are not ours to touch.
	Strangers []string
	// Answers are what the router said about sessions. Nil: it was not asked.
	Answers map[string]Answer
}

// Store is one side.
type Store struct {
	// Rows by session id.
	Rows map[string]Row
	// Unreadable rows, and why.
	Unreadable map[string]string
	// Members of each index.
	Members map[string][]string
	// Lists are the members of each list that is not empty.
	Lists map[string][]string
}

// Row is the part of a row that is compared, in the names of the wire.
type Row struct {
	Kind        string       `json:"kind"`
	SandboxID   string       `json:"sandboxId"`
	Namespace   string       `json:"sandboxNamespace"`
	Name        string       `json:"name"`
	EntryPoints []EntryPoint `json:"entryPoints"`
	SessionID   string       `json:"sessionId"`
	OwnerID     string       `json:"ownerId"`
	CreatedAt   string       `json:"createdAt"`
	ExpiresAt   string       `json:"expiresAt"`
	IdleTimeout string       `json:"idleTimeout"`
	Status      string       `json:"status"`
	ObjectUID   string       `json:"objectUid"`
	SandboxName string       `json:"sandboxName"`
	Workload    Workload     `json:"workload"`
	// Pending is a change of lifetimes that is not through.
	Pending any `json:"pending"`
}

// Workload is what a session was made from.
type Workload struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// EntryPoint of a row.
type EntryPoint struct {
	Endpoint string `json:"endpoint"`
}

// Object is the key of the object that the row names.
func (r Row) Object() string { return Key(r.Kind, r.Namespace, r.Name) }

// Live reports whether the session can be used, now or soon.
func (r Row) Live() bool { return r.Status != "creating" && r.Status != "deleting" }

// Key names an object.
func Key(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// Cluster is the other side.
type Cluster struct {
	// Installation is the id that our objects bear.
	Installation string
	// Objects are all Sandboxes and SandboxClaims by Key.
	Objects map[string]Object
	// Pods by namespace/name.
	Pods map[string]Pod
}

// Object is a Sandbox or SandboxClaim.
type Object struct {
	Kind, Namespace, Name, UID string
	// SessionID and Installation are its labels.
	SessionID, Installation string
	// Deleting: it has a deletionTimestamp.
	Deleting bool
	// ShutdownTime and IdleTimeout are what it says of its session's lifetimes.
	ShutdownTime, IdleTimeout string
	// Sandbox is the name of the Sandbox that serves it: its own, or that of the
	// one a claim has bound.
	Sandbox string
}

// Pod is a pod.
type Pod struct {
	UID, Address string
	// Gone: it is being deleted or has ended.
	Gone bool
}

// Fate is what must have become of a session.
type Fate int

// The fates, each stronger than the one before it.
const (
	// Lives: nobody deleted it or its object, and its time is not over.
	Lives Fate = iota
	// Either: something was done to it whose outcome is not known.
	Either
	// Gone: it was deleted, or its object was.
	Gone
)

func (f Fate) String() string { return [...]string{"lives", "either", "gone"}[f] }

// Expectation is what a session's history says about it.
type Expectation struct {
	ID   string
	Fate Fate
	// Why the fate is that one.
	Why string
}

// Answer is what the router said to a request for a session.
type Answer struct {
	Status int
	// Code of a router error, "" for an answer of the sandbox.
	Code string
	// Session is the header of that name.
	Session string
	// Pod and UID of the pod that answered.
	Pod, UID string
	// Failure is set when there was no answer.
	Failure string
}
