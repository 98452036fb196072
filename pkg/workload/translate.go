package workload

import (
	"fmt"
	"math"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// template is what the caches keep of an AgentRuntime or a CodeInterpreter.
// Of the metadata it holds what names it and its version.
type template struct {
	metav1.ObjectMeta
	workload Workload
	// invalid is set when the template cannot be used. The workload then
	// holds what could be read.
	invalid error
	status  status
}

// parse turns the custom resource into a template. It takes obj over: pod
// specs are not copied.
func parse(kind string, obj *unstructured.Unstructured) *template {
	t := &template{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         obj.GetNamespace(),
			Name:              obj.GetName(),
			UID:               obj.GetUID(),
			ResourceVersion:   obj.GetResourceVersion(),
			Generation:        obj.GetGeneration(),
			DeletionTimestamp: obj.GetDeletionTimestamp(),
		},
	}
	var problems []string
	root := fields{data: obj.Object, problems: &problems}
	spec := root.object("spec")
	if kind == session.KindCodeInterpreter {
		t.workload = codeInterpreter(spec)
		t.status = parseStatus(obj)
		t.workload.PoolMade = t.status.poolMade()
	} else {
		t.workload = agentRuntime(spec)
	}
	t.workload.Ref = session.WorkloadRef{Kind: kind, Namespace: t.Namespace, Name: t.Name}
	t.workload.UID = string(t.UID)
	t.workload.Generation = t.Generation
	t.workload.ResourceVersion = t.ResourceVersion
	if len(problems) > 0 {
		t.invalid = fmt.Errorf("%s %w: %s", describe(t.workload.Ref), ErrInvalid, strings.Join(problems, "; "))
	}
	return t
}

func agentRuntime(spec fields) Workload {
	w := lifetimes(spec)
	w.Ports = ports(spec, "targetPort")
	if len(spec.list("targetPort")) == 0 {
		spec.problem(spec.at("targetPort"), "must hold at least one port")
	}
	pod := spec.object("podTemplate")
	w.Pod = sandbox.PodTemplate{
		Labels:      pod.textMap("labels"),
		Annotations: pod.textMap("annotations"),
		Spec:        podSpec(pod),
	}
	return w
}

// podSpec passes the spec through. Only what every pod must have is looked at:
// the rest is the API server's to judge, which may know more than this build.
func podSpec(pod fields) map[string]any {
	spec := pod.object("spec")
	if len(spec.list("containers")) == 0 {
		spec.problem(spec.at("containers"), "must hold at least one container")
	}
	for _, container := range spec.objects("containers") {
		container.objects("env")
	}
	return spec.data
}

func codeInterpreter(spec fields) Workload {
	w := lifetimes(spec)
	w.Ports = ports(spec, "ports")
	if len(spec.list("ports")) == 0 {
		w.Ports = []session.Port{{Path: "/", Port: 8080, Protocol: session.ProtocolHTTP}}
	}
	w.Pod = interpreterPod(spec.object("template"))
	w.PoolSize = poolSize(spec)
	w.Warm = w.PoolSize > 0
	switch w.AuthMode = spec.text("authMode"); w.AuthMode {
	case "":
		w.AuthMode = session.AuthModePicoD
	case session.AuthModePicoD, session.AuthModeNone:
	default:
		spec.problem(spec.at("authMode"), "must be picod or none, is %.64q", w.AuthMode)
	}
	return w
}

func poolSize(spec fields) int32 {
	size, _ := spec.integer("warmPoolSize")
	if size < 0 || size > math.MaxInt32 {
		spec.problem(spec.at("warmPoolSize"), "must be 0 to %d, is %d", math.MaxInt32, size)
		return 0
	}
	return int32(size)
}

// interpreterPod is the pod of a direct Sandbox. Fields that the template
// leaves out are left out, but resources: running installations write them.
func interpreterPod(template fields) sandbox.PodTemplate {
	container := map[string]any{
		"name":      containerDirect,
		"image":     template.text("image"),
		"resources": map[string]any{},
	}
	if container["image"] == "" {
		template.problem(template.at("image"), "must be set")
	}
	if resources := template.object("resources"); resources.data != nil {
		container["resources"] = resources.data
	}
	template.objects("environment")
	template.objects("imagePullSecrets")
	setText(container, "imagePullPolicy", template.text("imagePullPolicy"))
	setList(container, "env", template.list("environment"))
	setList(container, "command", template.texts("command"))
	setList(container, "args", template.texts("args"))

	spec := map[string]any{"containers": []any{container}}
	setText(spec, "runtimeClassName", template.text("runtimeClassName"))
	setList(spec, "imagePullSecrets", template.list("imagePullSecrets"))
	return sandbox.PodTemplate{
		Labels:      template.textMap("labels"),
		Annotations: template.textMap("annotations"),
		Spec:        spec,
	}
}

func setText(object map[string]any, key, text string) {
	if text != "" {
		object[key] = text
	}
}

func setList(object map[string]any, key string, list []any) {
	if len(list) > 0 {
		object[key] = list
	}
}

// lifetimes reads what both kinds have. An idle timeout of zero is the
// default; a maximum of zero is unlimited.
func lifetimes(spec fields) Workload {
	w := Workload{
		Idle: spec.duration("sessionTimeout", DefaultIdle),
		Max:  spec.duration("maxSessionDuration", DefaultMax),
	}
	if w.Idle == 0 {
		w.Idle = DefaultIdle
	}
	return w
}

func ports(spec fields, key string) []session.Port {
	objects := spec.objects(key)
	found := make([]session.Port, 0, len(objects))
	for _, object := range objects {
		number, _ := object.integer("port")
		if number < 1 || number > math.MaxUint16 {
			object.problem(object.at("port"), "must be 1 to %d, is %d", math.MaxUint16, number)
			continue
		}
		protocol := object.text("protocol")
		switch protocol {
		case "":
			protocol = session.ProtocolHTTP
		case session.ProtocolHTTP, session.ProtocolHTTPS:
		default:
			object.problem(object.at("protocol"), "must be HTTP or HTTPS, is %.64q", protocol)
		}
		found = append(found, session.Port{
			Path: object.text("pathPrefix"), Protocol: protocol, Port: int32(number),
		})
	}
	return found
}
