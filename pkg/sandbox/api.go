package sandbox

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/agentcube/agentcube/pkg/session"
)

// Versions of agent-sandbox's API: v0.4.x serves V1Alpha1, v0.5.x both.
const (
	V1Alpha1 = "v1alpha1"
	V1Beta1  = "v1beta1"
)

const (
	coreGroup       = "agents.x-k8s.io"
	extensionsGroup = "extensions.agents.x-k8s.io"
)

// ErrNotServed: the cluster serves no version of agent-sandbox whole. It says
// nothing of any one object.
var ErrNotServed = errors.New("agent-sandbox is not served by the cluster")

// API is the agent-sandbox version a cluster serves. All its methods are pure.
type API struct{ Version string }

// Sandboxes is the resource of Sandbox objects.
func (a API) Sandboxes() schema.GroupVersionResource { return a.resource(coreGroup, "sandboxes") }

// Claims is the resource of SandboxClaim objects.
func (a API) Claims() schema.GroupVersionResource {
	return a.resource(extensionsGroup, "sandboxclaims")
}

// Templates is the resource of SandboxTemplate objects.
func (a API) Templates() schema.GroupVersionResource {
	return a.resource(extensionsGroup, "sandboxtemplates")
}

// WarmPools is the resource of SandboxWarmPool objects.
func (a API) WarmPools() schema.GroupVersionResource {
	return a.resource(extensionsGroup, "sandboxwarmpools")
}

func (a API) resource(group, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: a.Version, Resource: resource}
}

// of is the resource of a kind that carries sessions.
func (a API) of(kind string) (schema.GroupVersionResource, error) {
	switch kind {
	case session.KindSandbox:
		return a.Sandboxes(), nil
	case session.KindSandboxClaim:
		return a.Claims(), nil
	default:
		return schema.GroupVersionResource{}, fmt.Errorf("no object of kind %q carries a session", kind)
	}
}

// Discover finds the version to speak, V1Beta1 preferred: a V1Alpha1 claim
// passes through a conversion on v0.5.x, which costs time and has traps.
// A version counts as served only when all four resources are, since informers
// on a resource that is not there would never sync.
//
// Errors: ErrNotServed, ErrUnavailable.
func Discover(d discovery.DiscoveryInterface) (API, error) {
	for _, version := range []string{V1Beta1, V1Alpha1} {
		api := API{Version: version}
		served, err := api.servedBy(d)
		if err != nil {
			return API{}, err
		}
		if served {
			return api, nil
		}
	}
	return API{}, ErrNotServed
}

func (a API) servedBy(d discovery.DiscoveryInterface) (bool, error) {
	for _, want := range []schema.GroupVersionResource{a.Sandboxes(), a.Claims(), a.Templates(), a.WarmPools()} {
		list, err := d.ServerResourcesForGroupVersion(want.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, translateUnlessEnded(nil, err, "discovering "+want.GroupVersion().String())
		}
		if !lists(list, want.Resource) {
			return false, nil
		}
	}
	return true, nil
}

func lists(list *metav1.APIResourceList, resource string) bool {
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
}
