package sandbox

import (
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RejectKind tells who refused.
type RejectKind string

const (
	// RejectQuota: a ResourceQuota stands in the way; later it may not.
	RejectQuota RejectKind = "quota"
	// RejectPolicy: validation, a webhook, a policy, a limit range, or the end
	// of the namespace.
	RejectPolicy RejectKind = "policy"
	// RejectForbidden: the credentials are not accepted or lack a right.
	RejectForbidden RejectKind = "forbidden"
	// RejectNamespaceMissing: there is no such namespace.
	RejectNamespaceMissing RejectKind = "namespace-missing"
)

// RejectedError is the cluster's refusal: the call was not applied.
type RejectedError struct {
	Kind RejectKind
	// Message is the cluster's own, meant for whoever asked.
	Message string
}

func (e *RejectedError) Error() string { return "refused by the cluster: " + e.Message }

// Is makes a refusal for want of rights an ErrForbidden.
func (e *RejectedError) Is(target error) bool {
	return target == ErrForbidden && e.Kind == RejectForbidden
}

// forbiddenMark stands between the object and the reason in each message that
// apimachinery's NewForbidden makes (pkg/api/errors/errors.go).
const forbiddenMark = "forbidden: "

// deniedPrefix begins the message of every denial by a webhook, under whatever
// code the webhook chose: apiserver pkg/admission/plugin/webhook/errors/statuserror.go,
// ToStatusErr. A webhook that could not be asked says "failed calling webhook"
// and is a 500 like any other.
const deniedPrefix = `admission webhook "`

// rejectedCauses tells apart the many refusals that share code 403 by the text
// after forbiddenMark. The first match counts; none of them: a policy.
var rejectedCauses = []struct {
	prefix string
	kind   RejectKind
}{
	// apiserver pkg/admission/plugin/resourcequota/controller.go, CheckRequest.
	{"exceeded quota: ", RejectQuota},
	{"failed quota: ", RejectQuota},
	{"status unknown for quota: ", RejectQuota},
	{"insufficient quota to consume: ", RejectQuota},
	// apiserver pkg/endpoints/handlers/responsewriters/errors.go, forbiddenMessage.
	{`User "`, RejectForbidden},
	// kubernetes plugin/pkg/admission/gc/gc_admission.go.
	{"cannot set blockOwnerDeletion", RejectForbidden},
	{"cannot set an ownerRef on a resource you can't delete", RejectForbidden},
	// apiserver pkg/admission/plugin/policy/validating/dispatcher.go. It writes
	// its own reason over that of NewForbidden.
	{"ValidatingAdmissionPolicy '", RejectPolicy},
}

// rejection reports whether a failure is a refusal, and whose.
func rejection(s metav1.Status) (RejectKind, bool) {
	if strings.HasPrefix(s.Message, deniedPrefix) && strings.Contains(s.Message, " denied the request") {
		return RejectPolicy, true
	}
	if s.Code >= http.StatusBadRequest && s.Code < http.StatusInternalServerError {
		if kind, known := rejectedCause(s.Message); known {
			return kind, true
		}
	}
	switch s.Code {
	case http.StatusUnauthorized:
		return RejectForbidden, true
	case http.StatusForbidden:
		// A terminating namespace is one of these (apiserver
		// pkg/admission/plugin/namespace/lifecycle/admission.go), as are pod
		// security and limit ranges: the object as it is will not be taken.
		return RejectPolicy, true
	case http.StatusNotFound:
		return RejectNamespaceMissing, namespaceMissing(s)
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return RejectPolicy, true
	default:
		return "", false
	}
}

// rejectedCause looks the text up that says why. Only what stands right after
// the mark counts, so that a name or a user's text cannot pass for a cause.
func rejectedCause(message string) (RejectKind, bool) {
	_, cause, marked := strings.Cut(message, forbiddenMark)
	if !marked {
		return "", false
	}
	for _, c := range rejectedCauses {
		if strings.HasPrefix(cause, c.prefix) {
			return c.kind, true
		}
	}
	return "", false
}

// namespaceMissing: the lifecycle admission answers a create with the 404 of
// the namespace itself (same file as above), not of the object.
func namespaceMissing(s metav1.Status) bool {
	return s.Details != nil && s.Details.Group == corev1.GroupName && s.Details.Kind == "namespaces"
}
