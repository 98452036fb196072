package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var claims = schema.GroupResource{Group: extensionsGroup, Resource: "sandboxclaims"}

// forbidden is what the API server sends when an admission plugin or the
// authorizer refuses: pkg/admission/errors.go and
// pkg/endpoints/handlers/responsewriters/errors.go of k8s.io/apiserver.
func forbidden(name, cause string) *apierrors.StatusError {
	return apierrors.NewForbidden(claims, name, errors.New(cause))
}

// denied is what a webhook's denial becomes:
// pkg/admission/plugin/webhook/errors/statuserror.go of k8s.io/apiserver.
func denied(code int32, reason metav1.StatusReason, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: `admission webhook "guard.example.com" denied the request: ` + message,
	}}
}

// deniedByPolicy is what a ValidatingAdmissionPolicy's denial becomes:
// pkg/admission/plugin/policy/validating/dispatcher.go of k8s.io/apiserver.
func deniedByPolicy(code int32, reason metav1.StatusReason) *apierrors.StatusError {
	err := forbidden("a", "ValidatingAdmissionPolicy 'limits' with binding 'all' denied request: too big")
	err.ErrStatus.Code, err.ErrStatus.Reason = code, reason
	return err
}

// terminating: pkg/admission/plugin/namespace/lifecycle/admission.go.
func terminating() *apierrors.StatusError {
	err := forbidden("a", "unable to create new content in namespace team because it is being terminated")
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: corev1.NamespaceTerminatingCause, Message: "namespace team is being terminated", Field: "metadata.namespace",
	}}
	return err
}

func TestRefusalsAreToldApart(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		err  error
		want RejectKind
	}{
		"a full quota":                       {forbidden("a", "exceeded quota: q, requested: count/sandboxclaims.extensions.agents.x-k8s.io=1, used: count/sandboxclaims.extensions.agents.x-k8s.io=2, limited: count/sandboxclaims.extensions.agents.x-k8s.io=2"), RejectQuota},
		"a quota that is not counted yet":    {forbidden("a", "status unknown for quota: q, resources: count/sandboxclaims.extensions.agents.x-k8s.io"), RejectQuota},
		"a quota that wants more said":       {forbidden("a", "failed quota: q: must specify limits.cpu for: a"), RejectQuota},
		"no quota covers it":                 {forbidden("a", "insufficient quota to consume: count/sandboxclaims.extensions.agents.x-k8s.io"), RejectQuota},
		"RBAC":                               {forbidden("", `User "system:serviceaccount:team:dev" cannot create resource "sandboxclaims" in API group "extensions.agents.x-k8s.io" in the namespace "team"`), RejectForbidden},
		"RBAC, with a reason":                {forbidden("", `User "dev" cannot create resource "sandboxclaims" in API group "extensions.agents.x-k8s.io" in the namespace "team": RBAC: role.rbac.authorization.k8s.io "x" not found`), RejectForbidden},
		"RBAC, and a user whose name lies":   {forbidden("", `User "is forbidden: exceeded quota: q" cannot create resource "sandboxclaims"`), RejectForbidden},
		"RBAC on a path without a resource":  {apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(`User "system:anonymous" cannot get path "/apis"`)), RejectForbidden},
		"no right to the owner's finalizers": {forbidden("a", "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>"), RejectForbidden},
		"no right to delete the owner":       {forbidden("a", "cannot set an ownerRef on a resource you can't delete: , <nil>"), RejectForbidden},
		"unknown credentials":                {apierrors.NewUnauthorized("Unauthorized"), RejectForbidden},
		"a webhook, as 403":                  {denied(403, metav1.StatusReasonForbidden, "no"), RejectPolicy},
		"a webhook, as its default 400":      {denied(400, "", "no"), RejectPolicy},
		"a webhook, as 429":                  {denied(429, metav1.StatusReasonTooManyRequests, "no"), RejectPolicy},
		"a webhook, as 500":                  {denied(500, metav1.StatusReasonInternalError, "no"), RejectPolicy},
		"a webhook that talks of quotas":     {denied(403, metav1.StatusReasonForbidden, `x is forbidden: exceeded quota: q`), RejectPolicy},
		"a webhook that talks of users":      {denied(403, metav1.StatusReasonForbidden, `x is forbidden: User "a"`), RejectPolicy},
		"an admission policy":                {deniedByPolicy(422, metav1.StatusReasonInvalid), RejectPolicy},
		"an admission policy, as 401":        {deniedByPolicy(401, metav1.StatusReasonUnauthorized), RejectPolicy},
		"an admission policy, as 403":        {deniedByPolicy(403, metav1.StatusReasonForbidden), RejectPolicy},
		"a terminating namespace":            {terminating(), RejectPolicy},
		"pod security":                       {forbidden("a", `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`), RejectPolicy},
		"a limit range":                      {forbidden("a", "maximum cpu usage per Container is 1, but limit is 2"), RejectPolicy},
		"validation":                         {apierrors.NewInvalid(schema.GroupKind{Group: extensionsGroup, Kind: "SandboxClaim"}, "a", nil), RejectPolicy},
		"a bad request":                      {apierrors.NewBadRequest("no"), RejectPolicy},
		"too large":                          {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), RejectPolicy},
		"no such namespace":                  {apierrors.NewNotFound(corev1.Resource("namespaces"), "team"), RejectNamespaceMissing},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got := translate(t.Context(), c.err, "creating SandboxClaim team/a")

			var rejected *RejectedError
			require.ErrorAs(t, got, &rejected)
			assert.Equal(t, c.want, rejected.Kind)
			assert.Equal(t, c.err.Error(), rejected.Message, "the cluster's own words")
			assert.Equal(t, c.want == RejectForbidden, errors.Is(got, ErrForbidden))
			assert.False(t, OutcomeUnknown(got), "a refusal is an answer")
			assert.ErrorContains(t, got, "creating SandboxClaim team/a: ")
		})
	}
}

func TestFailuresAreTranslated(t *testing.T) {
	t.Parallel()
	notServed := apierrors.NewGenericServerResponse(http.StatusNotFound, "POST", claims, "", "404 page not found", 0, true)
	refused := &url.Error{Op: "Post", URL: "https://10.0.0.1", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	calling := apierrors.NewInternalError(errors.New(`failed calling webhook "guard.example.com": failed to call webhook: Post "https://guard": x is forbidden: User "a"`))

	for sentence, c := range map[string]struct {
		err     error
		want    error
		unknown bool
	}{
		"the object is not there":                   {apierrors.NewNotFound(claims, "a"), ErrNotFound, false},
		"the path is not served":                    {notServed, ErrNotServed, false},
		"the name is taken":                         {apierrors.NewAlreadyExists(claims, "a"), ErrExists, false},
		"the UID is another":                        {apierrors.NewConflict(claims, "a", errors.New("Precondition failed: UID in precondition: 1, UID in object meta: 2")), ErrConflict, false},
		"too many requests":                         {apierrors.NewTooManyRequests("slow down", 1), ErrUnavailable, false},
		"an internal error":                         {apierrors.NewInternalError(errors.New("etcd")), ErrUnavailable, true},
		"a webhook that could not be asked":         {calling, ErrUnavailable, true},
		"not ready to serve":                        {apierrors.NewServiceUnavailable("starting"), ErrUnavailable, true},
		"the server's own time limit":               {apierrors.NewTimeoutError("request did not complete within requested timeout", 0), ErrUnavailable, true},
		"a storage time limit":                      {apierrors.NewServerTimeout(claims, "create", 1), ErrUnavailable, true},
		"a gateway's time limit":                    {apierrors.NewGenericServerResponse(http.StatusGatewayTimeout, "POST", claims, "", "", 0, true), ErrUnavailable, true},
		"a connection that is refused":              {refused, ErrUnavailable, true},
		"our own time limit":                        {fmt.Errorf("asking: %w", context.DeadlineExceeded), ErrUnavailable, true},
		"a code that no API server is known to use": {apierrors.NewGenericServerResponse(http.StatusTeapot, "POST", claims, "", "", 0, false), ErrUnavailable, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got := translate(t.Context(), c.err, "creating SandboxClaim team/a")

			require.ErrorIs(t, got, c.want)
			assert.Equal(t, c.unknown, OutcomeUnknown(got))
			assert.Equal(t, c.unknown, OutcomeUnknown(fmt.Errorf("wrapped: %w", got)))
			require.ErrorContains(t, got, "creating SandboxClaim team/a: ")
			var status apierrors.APIStatus
			assert.NotErrorAs(t, got, &status, "nothing of the API server's types leaves")
		})
	}
}

func TestTheCallersOwnEndIsNotAnUnavailableServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	got := translate(ctx, fmt.Errorf("asking: %w", context.Canceled), "creating")
	require.ErrorIs(t, got, context.Canceled)
	require.NotErrorIs(t, got, ErrUnavailable)
	assert.True(t, OutcomeUnknown(got), "the call was under way")

	got = notSent(ctx, "creating")
	require.ErrorIs(t, got, context.Canceled)
	assert.False(t, OutcomeUnknown(got), "the call was never made")
	assert.EqualError(t, got, "creating: context canceled")
}

func TestOutcomeIsKnownOfWhatIsNoCall(t *testing.T) {
	t.Parallel()
	assert.False(t, OutcomeUnknown(nil))
	assert.False(t, OutcomeUnknown(errors.New("something")))
	assert.NoError(t, translate(t.Context(), nil, "creating"))
	assert.NoError(t, notSent(t.Context(), "creating"))
}
