package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kinds that are served, all of them namespaced. The workload-manager finds by
// discovery which of the custom ones there are.
var kinds = map[schema.GroupVersionResource]string{
	{Version: "v1", Resource: "secrets"}:                              "Secret",
	{Version: "v1", Resource: "configmaps"}:                           "ConfigMap",
	{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}: "Lease",
	sandboxes: "Sandbox",
	claims:    "SandboxClaim",
	{Group: extensions, Version: "v1beta1", Resource: "sandboxtemplates"}:                      "SandboxTemplate",
	{Group: extensions, Version: "v1beta1", Resource: "sandboxwarmpools"}:                      "SandboxWarmPool",
	{Group: "runtime.agentcube.volcano.sh", Version: "v1alpha1", Resource: "agentruntimes"}:    "AgentRuntime",
	{Group: "runtime.agentcube.volcano.sh", Version: "v1alpha1", Resource: "codeinterpreters"}: "CodeInterpreter",
}

const extensions = "extensions.agents.x-k8s.io"

var (
	sandboxes = schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}
	claims    = schema.GroupVersionResource{Group: extensions, Version: "v1beta1", Resource: "sandboxclaims"}
)

// discovered is what discovery tells of one group and version; false: nothing
// of it is served.
func discovered(gv schema.GroupVersion) (metav1.APIResourceList, bool) {
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String(),
	}
	for gvr, kind := range kinds {
		if gvr.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: gvr.Resource, Namespaced: true, Kind: kind,
				Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
			})
		}
	}
	return list, len(list.APIResources) > 0
}

// groups is the list of all named groups.
func groups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	seen := map[schema.GroupVersion]bool{{Version: "v1"}: true}
	for gvr := range kinds {
		gv := gvr.GroupVersion()
		if seen[gv] {
			continue
		}
		seen[gv] = true
		version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		list.Groups = append(list.Groups, metav1.APIGroup{
			Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		})
	}
	return list
}
