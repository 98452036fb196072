package workload

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Condition types of a CodeInterpreter.
const (
	// ConditionReady: a session made now is served. status.ready says the
	// same.
	ConditionReady = "Ready"
	// ConditionWarmPoolReady: as many sandboxes are ready as the template
	// asks for. Absent without a warm pool.
	ConditionWarmPoolReady = "WarmPoolReady"
)

// Reasons of the conditions.
const (
	ReasonAvailable             = "Available"
	ReasonColdStart             = "ColdStart"
	ReasonWarmPoolFull          = "WarmPoolFull"
	ReasonWarmPoolFilling       = "WarmPoolFilling"
	ReasonWarmPoolEmpty         = "WarmPoolEmpty"
	ReasonInvalidTemplate       = "InvalidTemplate"
	ReasonPublicKeyNotLoaded    = "PublicKeyNotLoaded"
	ReasonAgentSandboxNotServed = "AgentSandboxNotServed"
	ReasonNameConflict          = "NameConflict"
	ReasonRejected              = "Rejected"
	ReasonEnsureFailed          = "EnsureFailed"
)

// maxMessage is the bound of metav1.Condition on a message, in characters.
const maxMessage = 32768

// status is that of a CodeInterpreter.
type status struct {
	// ready is nil if the status does not say.
	ready      *bool
	conditions []metav1.Condition
}

// parseStatus leaves out what it cannot read: the status is ours to write, and
// the next report puts it right.
func parseStatus(obj *unstructured.Unstructured) status {
	var s status
	if ready, found, err := unstructured.NestedBool(obj.Object, "status", "ready"); found && err == nil {
		s.ready = &ready
	}
	list, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	items, _ := list.([]any)
	for _, item := range items {
		data, _ := item.(map[string]any)
		var condition metav1.Condition
		if runtime.DefaultUnstructuredConverter.FromUnstructured(data, &condition) == nil && condition.Type != "" {
			s.conditions = append(s.conditions, condition)
		}
	}
	return s
}

// poolMade reports whether the pool stood when the status was written.
func (s status) poolMade() bool {
	condition := meta.FindStatusCondition(s.conditions, ConditionWarmPoolReady)
	if condition == nil {
		return false
	}
	switch condition.Reason {
	case ReasonWarmPoolFull, ReasonWarmPoolFilling, ReasonWarmPoolEmpty:
		return true
	default:
		return false
	}
}

// refused is the message of a condition that says, of this generation, that
// the pool cannot be made and that waiting does not help.
func (s status) refused(generation int64) (string, bool) {
	condition := meta.FindStatusCondition(s.conditions, ConditionWarmPoolReady)
	if condition == nil || condition.ObservedGeneration != generation {
		return "", false
	}
	switch condition.Reason {
	case ReasonNameConflict, ReasonRejected, ReasonAgentSandboxNotServed:
		return condition.Message, true
	default:
		return "", false
	}
}

// finding is what one condition is to say.
type finding struct {
	holds           bool
	reason, message string
}

func (f finding) condition(kind string, generation int64, now metav1.Time) metav1.Condition {
	state := metav1.ConditionFalse
	if f.holds {
		state = metav1.ConditionTrue
	}
	message := f.message
	if runes := []rune(message); len(runes) > maxMessage {
		message = string(runes[:maxMessage])
	}
	return metav1.Condition{
		Type: kind, Status: state, Reason: f.reason, Message: message,
		ObservedGeneration: generation, LastTransitionTime: now,
	}
}

// verdict is what a sync found out. Without pool there is none to report on.
type verdict struct {
	ready finding
	pool  *finding
}

// with returns the status that tells the verdict, and whether it differs.
// Conditions of others stay, and a time of transition moves only when a
// condition's status changes.
func (s status) with(v verdict, generation int64, now metav1.Time) (status, bool) {
	next := status{ready: &v.ready.holds, conditions: slices.Clone(s.conditions)}
	changed := s.ready == nil || *s.ready != v.ready.holds
	set := func(kind string, f finding) {
		if meta.SetStatusCondition(&next.conditions, f.condition(kind, generation, now)) {
			changed = true
		}
	}
	set(ConditionReady, v.ready)
	if v.pool != nil {
		set(ConditionWarmPoolReady, *v.pool)
	} else if meta.RemoveStatusCondition(&next.conditions, ConditionWarmPoolReady) {
		changed = true
	}
	return next, changed
}
