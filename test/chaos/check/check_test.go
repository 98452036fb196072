package check

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

const (
	direct = "00000000-0000-4000-8000-000000000001"
	warm   = "00000000-0000-4000-8000-000000000002"
	ended  = "00000000-0000-4000-8000-000000000003"
)

// good is a snapshot without a fault: a session on a Sandbox, one on a claim
// that adopted another Sandbox, one that is over, and a stranger.
func good() Snapshot {
	row := func(kind, name, uid, sandbox, sandboxUID, address, id string) Row {
		return Row{
			Kind: kind, Namespace: "n", Name: name, ObjectUID: uid, SandboxName: sandbox, SandboxID: sandboxUID, SessionID: id,
			EntryPoints: []EntryPoint{{address + ":8080"}}, Status: "ready",
			ExpiresAt: "2030-01-01T00:00:00Z", IdleTimeout: "15m0s",
		}
	}
	both := []string{direct, warm}
	return Snapshot{
		Store: Store{
			Rows: map[string]Row{
				direct: row("Sandbox", "a", "ua", "a", "ua", "127.0.0.2", direct),
				warm:   row("SandboxClaim", "b", "ub", "pool-1", "up", "127.0.0.3", warm),
			},
			Unreadable: map[string]string{},
			Members:    map[string][]string{IndexExpiry: both, IndexActivity: both, IndexDue: both},
		},
		Cluster: Cluster{
			Installation: "i",
			Objects: map[string]Object{
				"Sandbox n/a":      {Kind: "Sandbox", Namespace: "n", Name: "a", UID: "ua", SessionID: direct, Installation: "i", Sandbox: "a", ShutdownTime: "2030-01-01T00:00:00Z", IdleTimeout: "15m0s"},
				"SandboxClaim n/b": {Kind: "SandboxClaim", Namespace: "n", Name: "b", UID: "ub", SessionID: warm, Installation: "i", Sandbox: "pool-1", ShutdownTime: "2030-01-01T00:00:00Z", IdleTimeout: "15m0s"},
				"Sandbox n/pool-1": {Kind: "Sandbox", Namespace: "n", Name: "pool-1", UID: "up", Sandbox: "pool-1"},
				"Sandbox n/s":      {Kind: "Sandbox", Namespace: "n", Name: "s", UID: "us", SessionID: direct, Installation: "other", Sandbox: "s"},
			},
			Pods: map[string]Pod{
				"n/a":      {UID: "pa", Address: "127.0.0.2"},
				"n/pool-1": {UID: "pp", Address: "127.0.0.3"},
			},
		},
		Sessions:  []Expectation{{ID: direct}, {ID: warm}, {ID: ended, Fate: Gone}},
		Strangers: []string{"Sandbox n/s"},
		Answers: map[string]Answer{
			direct: {Status: 200, Session: direct, Pod: "a", UID: "pa"},
			warm:   {Status: 200, Session: warm, Pod: "pool-1", UID: "pp"},
			ended:  {Status: 404, Code: "SESSION_NOT_FOUND", Session: ended},
		},
	}
}

func edit[V any](m map[string]V, key string, change func(*V)) {
	v := m[key]
	change(&v)
	m[key] = v
}

func TestWhatIsWrongIsFound(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil func(*Snapshot)
		want  []string // kinds, in order
		final bool
	}{
		"nothing": {spoil: func(*Snapshot) {}},
		"an object of ours that no row names": {
			spoil: func(s *Snapshot) {
				s.Cluster.Objects["Sandbox n/x"] = Object{UID: "ux", SessionID: ended, Installation: "i"}
			},
			want: []string{ObjectWithoutRow},
		},
		"a second object of a session": {
			spoil: func(s *Snapshot) {
				s.Cluster.Objects["Sandbox n/x"] = Object{UID: "ux", SessionID: direct, Installation: "i"}
			},
			want: []string{ObjectWithoutRow},
		},
		"an object without a row that is on its way out": {
			spoil: func(s *Snapshot) {
				s.Cluster.Objects["Sandbox n/x"] = Object{UID: "ux", SessionID: ended, Installation: "i", Deleting: true}
			},
		},
		"a row whose object is gone": {
			spoil: func(s *Snapshot) { delete(s.Cluster.Objects, "SandboxClaim n/b"); s.Answers = nil },
			want:  []string{RowWithoutObject},
		},
		"a row whose object is being deleted": {
			spoil: func(s *Snapshot) {
				edit(s.Cluster.Objects, "Sandbox n/a", func(o *Object) { o.Deleting = true })
			},
			want: []string{RowWithoutObject},
		},
		"a row whose object was replaced by one of the same name": {
			spoil: func(s *Snapshot) { edit(s.Cluster.Objects, "Sandbox n/a", func(o *Object) { o.UID = "u2" }) },
			want:  []string{ObjectWithoutRow, RowWithoutObject},
		},
		"a row without the UID of its object": {
			spoil: func(s *Snapshot) { edit(s.Store.Rows, direct, func(r *Row) { r.ObjectUID = "" }) },
			want:  []string{RowWithoutObject},
		},
		"a label that was taken off": {
			spoil: func(s *Snapshot) { edit(s.Cluster.Objects, "Sandbox n/a", func(o *Object) { o.SessionID = "" }) },
			want:  []string{LabelLost},
		},
		"a row that cannot be read": {
			spoil: func(s *Snapshot) { s.Store.Unreadable[ended] = "null" },
			want:  []string{RowUnreadable}, final: true,
		},
		"a row that stays in deleting": {
			spoil: func(s *Snapshot) {
				edit(s.Store.Rows, ended, func(r *Row) { r.Status = "deleting" })
				s.Store.Members[IndexActivity] = append(s.Store.Members[IndexActivity], ended)
				s.Store.Members[IndexDue] = append(s.Store.Members[IndexDue], ended)
			},
			want: []string{RowStuck, NotEnded},
		},
		"a row that stays in creating": {
			spoil: func(s *Snapshot) {
				edit(s.Store.Rows, warm, func(r *Row) { r.Status = "creating" })
				s.Store.Members[IndexCreating] = []string{warm}
			},
			want: []string{RowStuck},
		},
		"a row that stays in not-ready": {
			spoil: func(s *Snapshot) { edit(s.Store.Rows, warm, func(r *Row) { r.Status = "not-ready" }) },
			want:  []string{RowNotReady},
		},
		"an index entry without a row": {
			spoil: func(s *Snapshot) { s.Store.Members[IndexActivity] = []string{direct, warm, ended} },
			want:  []string{EntryWithoutRow},
		},
		"a row without an index entry": {
			spoil: func(s *Snapshot) { s.Store.Members[IndexDue] = []string{direct} },
			want:  []string{RowWithoutEntry},
		},
		"a ready row in the index of placeholders": {
			spoil: func(s *Snapshot) { s.Store.Members[IndexCreating] = []string{direct} },
			want:  []string{WrongEntry},
		},
		"an unlimited session without an expiry": {
			spoil: func(s *Snapshot) {
				edit(s.Store.Rows, direct, func(r *Row) { r.ExpiresAt = "0001-01-01T00:00:00Z" })
				edit(s.Cluster.Objects, "Sandbox n/a", func(o *Object) { o.ShutdownTime = "" })
				s.Store.Members[IndexExpiry] = []string{warm}
			},
		},
		"an unlimited session with an expiry": {
			spoil: func(s *Snapshot) {
				edit(s.Store.Rows, direct, func(r *Row) { r.ExpiresAt = "0001-01-01T00:00:00Z" })
				edit(s.Cluster.Objects, "Sandbox n/a", func(o *Object) { o.ShutdownTime = "" })
			},
			want: []string{WrongEntry},
		},
		"an end that the object says in whole seconds": {
			spoil: func(s *Snapshot) {
				edit(s.Store.Rows, direct, func(r *Row) { r.ExpiresAt = "2029-12-31T23:59:59.001Z" })
			},
		},
		"an object that ends sooner than its row": {
			spoil: func(s *Snapshot) {
				edit(s.Cluster.Objects, "Sandbox n/a", func(o *Object) { o.ShutdownTime = "2029-12-31T23:59:59Z" })
			},
			want: []string{LifetimesDiffer},
		},
		"a claim that says another idle timeout": {
			spoil: func(s *Snapshot) {
				edit(s.Cluster.Objects, "SandboxClaim n/b", func(o *Object) { o.IdleTimeout = "1h0m0s" })
			},
			want: []string{LifetimesDiffer},
		},
		"a change of lifetimes that is not through": {
			spoil: func(s *Snapshot) { edit(s.Store.Rows, warm, func(r *Row) { r.Pending = "x" }) },
			want:  []string{LifetimesDiffer},
		},
		"the address of the pod before": {
			spoil: func(s *Snapshot) { edit(s.Cluster.Pods, "n/a", func(p *Pod) { p.Address = "127.0.0.9" }) },
			want:  []string{WrongEndpoint},
		},
		"a ready row whose pod is gone": {
			spoil: func(s *Snapshot) { edit(s.Cluster.Pods, "n/pool-1", func(p *Pod) { p.Gone = true }) },
			want:  []string{WrongEndpoint},
		},
		"a ready row without an address": {
			spoil: func(s *Snapshot) { edit(s.Store.Rows, direct, func(r *Row) { r.EntryPoints = nil }) },
			want:  []string{WrongEndpoint},
		},
		"a claim that bound another sandbox": {
			spoil: func(s *Snapshot) {
				edit(s.Cluster.Objects, "SandboxClaim n/b", func(o *Object) { o.Sandbox = "pool-2" })
			},
			want: []string{WrongSandbox, WrongAnswer},
		},
		"another sandbox of the same name": {
			spoil: func(s *Snapshot) { edit(s.Store.Rows, warm, func(r *Row) { r.SandboxID = "before" }) },
			want:  []string{WrongSandbox},
		},
		"a live session without a row": {
			spoil: func(s *Snapshot) { s.Sessions = append(s.Sessions, Expectation{ID: "x"}) },
			want:  []string{EndedEarly}, final: true,
		},
		"a session of unknown fate without a row": {
			spoil: func(s *Snapshot) { s.Sessions = append(s.Sessions, Expectation{ID: "x", Fate: Either}) },
		},
		"a deleted session that is there": {
			spoil: func(s *Snapshot) { s.Sessions[0].Fate = Gone },
			want:  []string{NotEnded},
		},
		"a deleted session that the router still serves": {
			spoil: func(s *Snapshot) { s.Answers[ended] = Answer{Status: 502, Code: "SANDBOX_UNREACHABLE"} },
			want:  []string{WrongAnswer},
		},
		"a 404 of the application for a deleted session": {
			spoil: func(s *Snapshot) { s.Answers[ended] = Answer{Status: 404} },
			want:  []string{WrongAnswer},
		},
		"a live session that the router does not serve": {
			spoil: func(s *Snapshot) { s.Answers[direct] = Answer{Status: 503, Code: "SANDBOX_NOT_READY"} },
			want:  []string{WrongAnswer},
		},
		"an answer of another session's pod": {
			spoil: func(s *Snapshot) { edit(s.Answers, direct, func(a *Answer) { a.Pod = "pool-1" }) },
			want:  []string{WrongAnswer},
		},
		"an answer of a pod of the same name": {
			spoil: func(s *Snapshot) { edit(s.Answers, direct, func(a *Answer) { a.UID = "before" }) },
			want:  []string{WrongAnswer},
		},
		"an answer that names another session": {
			spoil: func(s *Snapshot) { edit(s.Answers, direct, func(a *Answer) { a.Session = warm }) },
			want:  []string{WrongAnswer},
		},
		"no answer": {
			spoil: func(s *Snapshot) { s.Answers[direct] = Answer{Failure: "connection refused"} },
			want:  []string{WrongAnswer},
		},
		"a stranger's object that is gone": {
			spoil: func(s *Snapshot) { delete(s.Cluster.Objects, "Sandbox n/s") },
			want:  []string{StrangerTouched}, final: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good()
			test.spoil(&s)
			fillLists(&s)
			var kinds []string
			for _, v := range Check(s) {
				kinds = append(kinds, v.Kind)
				assert.Equal(t, test.final, v.Final, v)
			}
			assert.Equal(t, test.want, kinds)
		})
	}
}
