package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// target is a port of a pod.
type target struct {
	namespace, pod string
	port           int32
}

var (
	errNoSelector = errors.New("its Service selects no pods")
	errNoPod      = errors.New("none of its pods is ready")
	errNoPort     = errors.New("its Service has no port that its pod has")
)

// find picks a ready pod of a Service, and the port behind the Service's first.
func find(ctx context.Context, client kubernetes.Interface, namespace, name string) (target, error) {
	service, err := client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return target{}, fmt.Errorf("reading its Service: %w", err)
	}
	if len(service.Spec.Selector) == 0 {
		return target{}, errNoSelector
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String(),
	})
	if err != nil {
		return target{}, fmt.Errorf("listing its pods: %w", err)
	}
	pod, err := choose(pods.Items)
	if err != nil {
		return target{}, err
	}
	port, err := portOf(service, pod)
	if err != nil {
		return target{}, err
	}
	return target{namespace: namespace, pod: pod.Name, port: port}, nil
}

// choose takes the ready pod that was there first: it is the least likely to be
// replaced by a roll-out that goes on.
func choose(pods []corev1.Pod) (*corev1.Pod, error) {
	ready := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	})
	if len(ready) == 0 {
		return nil, fmt.Errorf("%w (of %d)", errNoPod, len(pods))
	}
	first := slices.MinFunc(ready, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &first, nil
}

// portOf follows the first port of the Service to the pod's.
func portOf(service *corev1.Service, pod *corev1.Pod) (int32, error) {
	if len(service.Spec.Ports) == 0 {
		return 0, errNoPort
	}
	port := service.Spec.Ports[0]
	switch {
	case port.TargetPort.Type == intstr.Int && port.TargetPort.IntVal != 0:
		return port.TargetPort.IntVal, nil
	case port.TargetPort.Type == intstr.Int:
		return port.Port, nil // the default of the API server
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == port.TargetPort.StrVal {
				return p.ContainerPort, nil
			}
		}
	}
	return 0, errNoPort
}
