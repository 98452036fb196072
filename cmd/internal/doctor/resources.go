package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/agentcube/agentcube/pkg/sandbox"
)

const (
	checkOurCRDs     = "AgentCube's custom resources"
	checkSandboxCRDs = "agent-sandbox's custom resources"
	ourGroupVersion  = "runtime.agentcube.volcano.sh/v1alpha1"
)

// agentCubeCRDs wants both kinds of template to be served.
func (d *Doctor) agentCubeCRDs(context.Context) []Finding {
	const fix = "kubectl apply -k manifests/crds"
	list, err := d.Kubernetes.Discovery().ServerResourcesForGroupVersion(ourGroupVersion)
	if apierrors.IsNotFound(err) {
		return one(checkOurCRDs, Broken, ourGroupVersion+" is not served", fix)
	}
	if err != nil {
		return one(checkOurCRDs, Broken, "they cannot be discovered: "+err.Error(), "mend the API server first")
	}
	var missing []string
	for _, want := range []string{"agentruntimes", "codeinterpreters", "codeinterpreters/status"} {
		if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == want }) {
			missing = append(missing, want)
		}
	}
	if len(missing) > 0 {
		return one(checkOurCRDs, Broken, ourGroupVersion+" lacks "+strings.Join(missing, ", "), fix)
	}
	return one(checkOurCRDs, OK, ourGroupVersion+" is served", "")
}

// agentSandboxCRDs wants a version that the workload-manager knows.
func (d *Doctor) agentSandboxCRDs(context.Context) []Finding {
	served, err := sandbox.Discover(d.Kubernetes.Discovery())
	switch {
	case errors.Is(err, sandbox.ErrNotServed):
		return one(checkSandboxCRDs, Broken,
			"Sandboxes, SandboxClaims, SandboxTemplates and SandboxWarmPools are not all served in "+
				sandbox.V1Beta1+" or "+sandbox.V1Alpha1,
			"install agent-sandbox 0.4 or 0.5 with its extensions")
	case err != nil:
		return one(checkSandboxCRDs, Broken, "they cannot be discovered: "+err.Error(), "mend the API server first")
	}
	return one(checkSandboxCRDs, OK, "version "+served.Version+" is served and used", "")
}

const checkController = "agent-sandbox's controller"

// agentSandboxController judges by its Deployment; where there is none, by what
// the controller did: a Sandbox that it saw has a status.
func (d *Doctor) agentSandboxController(ctx context.Context) []Finding {
	deployments, err := d.Kubernetes.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		fix := "mend the API server first"
		if apierrors.IsForbidden(err) {
			fix = "ask for the right to list deployments in all namespaces"
		}
		return one(checkController, Warning, "its Deployment cannot be looked for: "+err.Error(), fix)
	}
	for _, x := range deployments.Items {
		if x.Name != "agent-sandbox-controller" {
			continue
		}
		where := "Deployment " + x.Namespace + "/" + x.Name
		if x.Status.AvailableReplicas == 0 {
			return one(checkController, Broken, where+" has no available replica: no sandbox is started",
				fmt.Sprintf("kubectl -n %s describe deployment,pods; kubectl -n %[1]s logs deployment/%s", x.Namespace, x.Name))
		}
		return one(checkController, OK, fmt.Sprintf("%s has %d available", where, x.Status.AvailableReplicas), "")
	}
	return d.controllerByItsWork(ctx)
}

// untouchedFor is how long a Sandbox may be without a status, in seconds.
const untouchedFor = 60

func (d *Doctor) controllerByItsWork(ctx context.Context) []Finding {
	served, err := sandbox.Discover(d.Kubernetes.Discovery())
	if err != nil {
		return nil // said above
	}
	list, err := d.Dynamic.Resource(served.Sandboxes()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return one(checkController, Warning, "Sandboxes cannot be listed: "+err.Error(), "ask for the right to list sandboxes")
	}
	seen, untouched := 0, ""
	for _, x := range list.Items {
		conditions, _, _ := unstructured.NestedSlice(x.Object, "status", "conditions") // then it has none
		switch {
		case len(conditions) > 0:
			seen++
		case d.Clock.Since(x.GetCreationTimestamp().Time).Seconds() > untouchedFor:
			untouched = x.GetNamespace() + "/" + x.GetName()
		}
	}
	switch {
	case untouched != "":
		return one(checkController, Broken, "Sandbox "+untouched+" has been there for over a minute and has no status: nobody looks after it",
			"start agent-sandbox's controller, with --extensions")
	case seen > 0:
		return one(checkController, OK, fmt.Sprintf("it looks after %d Sandboxes", seen), "")
	}
	return one(checkController, Warning, "it has no Deployment called agent-sandbox-controller, and there is no Sandbox to judge it by",
		"create a session; if that ends in CREATE_TIMEOUT, the controller does not run")
}
