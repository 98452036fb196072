package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// right is what a service account must be allowed.
type right struct {
	verbs              []string
	group, resource    string
	subresource, name  string
	path               string // for no resource
	inOwnNamespaceOnly bool
}

// managerRights are those of manifests/base/workload-manager-rbac.yaml, and
// routerRights those of router-rbac.yaml; a test compares them.
var (
	managerRights = []right{
		{verbs: words("get list watch create delete patch"), group: "agents.x-k8s.io", resource: "sandboxes"},
		{verbs: words("get list watch create delete patch"), group: "extensions.agents.x-k8s.io", resource: "sandboxclaims"},
		{verbs: words("get list watch create update delete"), group: "extensions.agents.x-k8s.io", resource: "sandboxtemplates"},
		{verbs: words("get list watch create update delete"), group: "extensions.agents.x-k8s.io", resource: "sandboxwarmpools"},
		{verbs: words("get list watch"), group: "runtime.agentcube.volcano.sh", resource: "agentruntimes"},
		{verbs: words("get list watch"), group: "runtime.agentcube.volcano.sh", resource: "codeinterpreters"},
		{verbs: words("patch"), group: "runtime.agentcube.volcano.sh", resource: "codeinterpreters", subresource: "status"},
		{verbs: words("update"), group: "runtime.agentcube.volcano.sh", resource: "codeinterpreters", subresource: "finalizers"},
		{verbs: words("create"), group: "events.k8s.io", resource: "events"},
		{verbs: words("get"), path: "/readyz"},
		{verbs: words("create"), group: "coordination.k8s.io", resource: "leases", inOwnNamespaceOnly: true},
		{verbs: words("get update"), group: "coordination.k8s.io", resource: "leases", name: "agentcube-workload-manager", inOwnNamespaceOnly: true},
		{verbs: words("create"), resource: "configmaps", inOwnNamespaceOnly: true},
		{verbs: words("get update"), resource: "configmaps", name: "agentcube-workload-manager", inOwnNamespaceOnly: true},
		{verbs: words("get list watch"), resource: "secrets", name: "picod-router-identity", inOwnNamespaceOnly: true},
	}
	routerRights = []right{
		{verbs: words("create"), resource: "secrets", inOwnNamespaceOnly: true},
		{verbs: words("get list watch"), resource: "secrets", name: "picod-router-identity", inOwnNamespaceOnly: true},
	}
)

func words(text string) []string { return strings.Fields(text) }

// rightsOf asks the API server what the service account of a service may do.
func (d *Doctor) rightsOf(service string, rights []right) func(context.Context) []Finding {
	return func(ctx context.Context) []Finding {
		check := "rights of the " + service
		user := fmt.Sprintf("system:serviceaccount:%s:%s", d.Namespace, service)
		var missing []string
		for _, r := range rights {
			for _, verb := range r.verbs {
				allowed, err := d.may(ctx, user, verb, r)
				switch {
				case apierrors.IsForbidden(err):
					return one(check, Warning, "you may not ask what "+user+" may do",
						"ask for the right to create subjectaccessreviews in authorization.k8s.io, or let an administrator run this")
				case err != nil:
					return one(check, Broken, "the API server does not say: "+err.Error(), "mend the API server first")
				case !allowed:
					missing = append(missing, verb+" "+r.String())
				}
			}
		}
		if len(missing) > 0 {
			slices.Sort(missing)
			return one(check, Broken, fmt.Sprintf("service account %s/%s may not %s", d.Namespace, service, strings.Join(missing, ", ")),
				fmt.Sprintf("kubectl apply -f manifests/base/%s-rbac.yaml", service))
		}
		return one(check, OK, fmt.Sprintf("service account %s/%s may do all it has to", d.Namespace, service), "")
	}
}

func (d *Doctor) may(ctx context.Context, user, verb string, r right) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   user,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + d.Namespace, "system:authenticated"},
	}}
	if r.path != "" {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: r.path, Verb: verb}
	} else {
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Name: r.name,
		}
		if r.inOwnNamespaceOnly {
			review.Spec.ResourceAttributes.Namespace = d.Namespace
		}
	}
	answer, err := d.Kubernetes.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// String is the right as kubectl writes it.
func (r right) String() string {
	if r.path != "" {
		return r.path
	}
	text := r.resource
	if r.group != "" {
		text += "." + r.group
	}
	if r.subresource != "" {
		text += "/" + r.subresource
	}
	if r.name != "" {
		text += "/" + r.name
	}
	return text
}
