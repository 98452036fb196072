package cli

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/agentcube/agentcube/pkg/api"
)

var (
	sessionColumns = columns{
		narrow: []string{"SESSION", "STATE", "TEMPLATE", "AGE", "ENDS IN", "IDLE END IN"},
		wide:   []string{"OBJECT", "ENTRY POINTS", "OWNER", "REASON", "MESSAGE"},
	}
	namespacedColumns = columns{narrow: append([]string{"NAMESPACE"}, sessionColumns.narrow...), wide: sessionColumns.wide}
)

// stateGone is shown for a session that a watch no longer finds.
const stateGone = "gone"

func sessionThing(s api.Session, now time.Time, namespaced bool) thing {
	t := thing{
		name: sessionPrefix + s.SessionID, object: s,
		cells: []string{s.SessionID, s.State, workload(s.Workload), since(now, s.CreatedAt), until(now, s.ExpiresAt), idleEnd(now, s)},
		wide:  []string{nameOfKind(s.Object.Kind) + "/" + s.Object.Name, endpoints(s.EntryPoints), s.OwnerID, s.Reason, s.Message},
	}
	if namespaced {
		t.cells = append([]string{namespaceOf(s)}, t.cells...)
	}
	return t
}

// idleEnd is unknown where the answer, to a create, does not say it.
func idleEnd(now time.Time, s api.Session) string {
	if s.IdleDeadline.IsZero() && s.IdleTimeout > 0 {
		return ""
	}
	return until(now, s.IdleDeadline)
}

func namespaceOf(s api.Session) string {
	if s.Workload.Namespace != "" {
		return s.Workload.Namespace
	}
	return s.Object.Namespace
}

func workload(w api.WorkloadRef) string {
	if w.Name == "" {
		return "" // a session of an existing installation
	}
	return nameOfKind(w.Kind) + "/" + w.Name
}

func endpoints(all []api.EntryPoint) string {
	var texts []string
	for _, e := range all {
		texts = append(texts, e.Endpoint+e.Path)
	}
	return strings.Join(texts, ",")
}

// since is the age of something; empty if it is not known.
func since(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, now.Sub(at)))
}

// until is the time that is left; "never" for none.
func until(now, at time.Time) string {
	switch {
	case at.IsZero():
		return "never"
	case !at.After(now):
		return "now"
	}
	// To the second: what was just given two hours has two hours, and not 119 minutes.
	return duration.HumanDuration(at.Sub(now).Round(time.Second))
}
