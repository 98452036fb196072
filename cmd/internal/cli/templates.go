package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/agentcube/agentcube/pkg/client"
)

// templateResources in the order in which they are listed.
var templateResources = []struct {
	kind     client.Kind
	resource schema.GroupVersionResource
}{
	{client.AgentRuntime, schema.GroupVersionResource{Group: "runtime.agentcube.volcano.sh", Version: "v1alpha1", Resource: "agentruntimes"}},
	{client.CodeInterpreter, schema.GroupVersionResource{Group: "runtime.agentcube.volcano.sh", Version: "v1alpha1", Resource: "codeinterpreters"}},
}

var templateColumns = columns{
	narrow: []string{"TEMPLATE", "READY", "WARM", "IDLE", "MAX", "AGE"},
	wide:   []string{"IMAGE", "PORTS", "AUTH"},
}

func (t *Tool) templates() *cobra.Command {
	return group(&cobra.Command{
		Use:     "templates",
		Aliases: []string{"template", "t"},
		Short:   "Find what sessions are made from",
	}, t.templatesList())
}

func (t *Tool) templatesList() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List AgentRuntimes and CodeInterpreters",
		Args:    args(cobra.NoArgs),
	}
	c.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list those of all namespaces")
	o := addOutput(c, plainFormats...)
	w := addWatch(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cols := templateColumns
		if all {
			cols.narrow = append([]string{"NAMESPACE"}, cols.narrow...)
		}
		look := func(ctx context.Context) ([]watched, error) { return t.lookAtTemplates(ctx, all) }
		if w.on {
			return t.follow(c.Context(), o, cols, w.interval, look, func(x watched) thing {
				x.cells[len(x.cells)-len(templateColumns.narrow)+1] = stateGone
				return x.thing
			})
		}
		found, err := look(c.Context())
		if err != nil {
			return err
		}
		things := make([]thing, 0, len(found))
		for _, x := range found {
			things = append(things, x.thing)
		}
		if len(things) == 0 && o.isTable() {
			return t.sayNoTemplates(all)
		}
		return o.printAll(t.Out, cols, things)
	}
	return c
}

func (t *Tool) sayNoTemplates(all bool) (err error) {
	namespace := metav1.NamespaceAll
	if !all {
		if namespace, err = t.templateNamespace(); err != nil {
			return err
		}
	}
	return t.say("No templates found%s.", in(namespace))
}

func (t *Tool) lookAtTemplates(ctx context.Context, all bool) ([]watched, error) {
	config, err := t.clusterConfig()
	if err != nil {
		return nil, err
	}
	cluster, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	namespace := metav1.NamespaceAll
	if !all {
		if namespace, err = t.templateNamespace(); err != nil {
			return nil, err
		}
	}
	var found []watched
	for _, r := range templateResources {
		list, err := cluster.Resource(r.resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", r.resource.Resource, err)
		}
		for i := range list.Items {
			x := &list.Items[i]
			found = append(found, watched{
				thing: templateThing(r.kind, x, t.Clock.Now(), all), key: string(x.GetUID()), version: x.GetResourceVersion(),
			})
		}
	}
	return found, nil
}

func templateThing(kind client.Kind, x *unstructured.Unstructured, now time.Time, namespaced bool) thing {
	name := nameOfKind(string(kind)) + "/" + x.GetName()
	t := thing{
		name: name, object: x.Object,
		cells: []string{
			name, text(x, "status", "ready"), text(x, "spec", "warmPoolSize"),
			or(text(x, "spec", "sessionTimeout"), "15m"), or(text(x, "spec", "maxSessionDuration"), "8h"),
			since(now, x.GetCreationTimestamp().Time),
		},
	}
	switch kind {
	case client.CodeInterpreter:
		t.wide = []string{text(x, "spec", "template", "image"), ports(x, "ports"), or(text(x, "spec", "authMode"), "picod")}
	case client.AgentRuntime:
		t.cells[1], t.wide = "", []string{images(x), ports(x, "targetPort"), ""}
	}
	if namespaced {
		t.cells = append([]string{x.GetNamespace()}, t.cells...)
	}
	return t
}

// text of a field; empty if it is not there.
func text(x *unstructured.Unstructured, path ...string) string {
	value, found, err := unstructured.NestedFieldNoCopy(x.Object, path...)
	if err != nil || !found {
		return ""
	}
	switch v := value.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func ports(x *unstructured.Unstructured, field string) string {
	return joined(x, func(port map[string]any) string {
		return fmt.Sprint(port["port"])
	}, "spec", field)
}

func images(x *unstructured.Unstructured) string {
	return joined(x, func(container map[string]any) string {
		return fmt.Sprint(container["image"])
	}, "spec", "podTemplate", "spec", "containers")
}

// joined joins what each item of a list says.
func joined(x *unstructured.Unstructured, say func(map[string]any) string, path ...string) string {
	items, _, err := unstructured.NestedSlice(x.Object, path...)
	if err != nil {
		return ""
	}
	var texts []string
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			texts = append(texts, say(m))
		}
	}
	return strings.Join(texts, ",")
}
