package sandbox

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Condition types and reasons of agent-sandbox v0.4.6 and v0.5.6:
// api/*/sandbox_types.go, extensions/api/*/sandboxclaim_types.go, and
// computeReadyCondition of both controllers.
const (
	conditionReady    = "Ready"
	conditionFinished = "Finished"

	reasonReconcilerError  = "ReconcilerError"
	reasonSandboxSuspended = "SandboxSuspended"
)

// finalReasons of Ready=False cannot heal; the value tells whether the sandbox
// had its time. Every other reason passes. TemplateNotFound and
// WarmPoolNotFound are final only to one who knows that both were made.
var finalReasons = map[string]bool{
	"InvalidMetadata":           false,
	"EnvVarsInjectionRejected":  false,
	"VolumeClaimTemplatesError": false,
	"ClaimExpired":              true,
	"SandboxExpired":            true,
	"PodFailed":                 true,
	"PodSucceeded":              true,
}

// quotaTexts mark a ReconcilerError that a ResourceQuota causes. The pod is
// made by the controller, so the API server's refusal arrives as text only.
// Source: k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go,
// CheckRequest. Its "status unknown for quota" is not here: it passes as soon
// as the quota is counted.
var quotaTexts = []string{"exceeded quota", "failed quota", "insufficient quota"}

type condition struct {
	Type, Status, Reason, Message string
	// Observed is the generation that it was computed from. Zero: not told.
	Observed int64
}

// conditions of an object, by type. What does not look like a condition is
// left out.
func conditions(u *unstructured.Unstructured) map[string]condition {
	items, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	list, _ := items.([]any)
	out := make(map[string]condition, len(list))
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		c := condition{
			Type: text(fields, "type"), Status: text(fields, "status"),
			Reason: text(fields, "reason"), Message: text(fields, "message"),
		}
		c.Observed, _ = fields["observedGeneration"].(int64)
		if c.Type != "" {
			out[c.Type] = c
		}
	}
	return out
}

func text(fields map[string]any, key string) string {
	s, _ := fields[key].(string)
	return s
}

// failure is what will never heal, or nil. v0.4.x tells a terminal pod by
// Finished alone, v0.5.x by Ready as well.
func failure(ready, finished condition) *Failure {
	if ready.Status == "True" {
		return nil
	}
	if ended, final := finalReasons[ready.Reason]; final {
		return &Failure{Reason: ready.Reason, Message: ready.Message, Ended: ended}
	}
	if finished.Status == "True" {
		return &Failure{Reason: finished.Reason, Message: finished.Message, Ended: true}
	}
	if ready.Reason == reasonReconcilerError && speaksOfQuota(ready.Message) {
		return &Failure{Reason: ready.Reason, Message: ready.Message, Quota: true}
	}
	return nil
}

func speaksOfQuota(message string) bool {
	return slices.ContainsFunc(quotaTexts, func(text string) bool { return strings.Contains(message, text) })
}
