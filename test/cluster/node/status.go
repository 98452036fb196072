package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const hostIP = "127.0.0.1"

// statusPatch is a strategic merge patch of a pod's status. The UID makes it fail
// on another pod of the same name.
type statusPatch struct {
	Metadata struct {
		UID types.UID `json:"uid"`
	} `json:"metadata"`
	Status corev1.PodStatus `json:"status"`
}

// runningPatch is the status of a pod that runs.
func runningPatch(p *pod, object *corev1.Pod, address string, at time.Time, ready bool) statusPatch {
	now := metav1.NewTime(at)
	var patch statusPatch
	patch.Metadata.UID = p.uid
	patch.Status = corev1.PodStatus{
		Phase:     corev1.PodRunning,
		HostIP:    hostIP,
		HostIPs:   []corev1.HostIP{{IP: hostIP}},
		PodIP:     address,
		PodIPs:    []corev1.PodIP{{IP: address}},
		StartTime: &now,
		Conditions: append(readiness(ready, now), corev1.PodCondition{
			Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: now,
		}),
	}
	for _, c := range object.Spec.Containers {
		patch.Status.ContainerStatuses = append(patch.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "simulated://" + c.Image,
			ContainerID: fmt.Sprintf("simulated://%s/%s", p.uid, c.Name),
			Ready:       ready, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return patch
}

func readiness(ready bool, now metav1.Time) []corev1.PodCondition {
	status, reason := corev1.ConditionTrue, ""
	if !ready {
		status, reason = corev1.ConditionFalse, "ContainersNotReady"
	}
	return []corev1.PodCondition{
		{Type: corev1.PodReady, Status: status, Reason: reason, LastTransitionTime: now},
		{Type: corev1.ContainersReady, Status: status, Reason: reason, LastTransitionTime: now},
	}
}

// report writes the status of a pod unless that is final.
func (n *Node) report(ctx context.Context, p *pod, patch statusPatch) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	p.statusMu.Lock()
	defer p.statusMu.Unlock()
	if p.terminal {
		return nil
	}
	return n.insist(ctx, "reporting the status", func() error {
		_, err := n.options.Client.CoreV1().Pods(p.name.Namespace).Patch(
			ctx, p.name.Name, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
		if apierrors.IsConflict(err) {
			return nil // the name belongs to another pod by now
		}
		return err
	})
}

// finish ends a pod for good: its address refuses, its containers have ended.
func (n *Node) finish(ctx context.Context, p *pod, phase corev1.PodPhase, reason, message string, code int32) error {
	if e := p.place(); e != nil {
		e.shut()
	}
	return n.change(ctx, p, true, func(status *corev1.PodStatus, now metav1.Time) {
		status.Phase, status.Reason, status.Message = phase, reason, message
		setConditions(status, readiness(false, now))
		for i := range status.ContainerStatuses {
			c := &status.ContainerStatuses[i]
			c.Ready, c.Started = false, new(false)
			c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: code, Reason: string(phase), Message: message, FinishedAt: now,
			}}
		}
	})
}

// change reads the pod, changes its status and writes it, again if someone else
// wrote in between. After a final change the status stays as it is.
func (n *Node) change(ctx context.Context, p *pod, final bool, set func(*corev1.PodStatus, metav1.Time)) error {
	pods := n.options.Client.CoreV1().Pods(p.name.Namespace)
	p.statusMu.Lock()
	defer p.statusMu.Unlock()
	if p.terminal {
		return nil
	}
	p.terminal = final
	return n.insist(ctx, "changing the status", func() error {
		object, err := pods.Get(ctx, p.name.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if object.UID != p.uid {
			return nil // the name belongs to another pod by now
		}
		if len(object.Status.ContainerStatuses) == 0 {
			for _, c := range object.Spec.Containers {
				object.Status.ContainerStatuses = append(object.Status.ContainerStatuses,
					corev1.ContainerStatus{Name: c.Name, Image: c.Image})
			}
		}
		set(&object.Status, metav1.NewTime(n.clock.Now()))
		_, err = pods.UpdateStatus(ctx, object, metav1.UpdateOptions{})
		return err
	})
}

func setConditions(status *corev1.PodStatus, conditions []corev1.PodCondition) {
	for _, c := range conditions {
		found := false
		for i := range status.Conditions {
			if status.Conditions[i].Type == c.Type {
				status.Conditions[i], found = c, true
			}
		}
		if !found {
			status.Conditions = append(status.Conditions, c)
		}
	}
}

// Fail makes a pod Failed, as if a container had ended with exit code 1: its
// address refuses from now on. The pod stays until it is deleted.
func (n *Node) Fail(ctx context.Context, namespace, name, message string) error {
	p := n.find(namespace, name)
	if p == nil {
		return fmt.Errorf("failing pod %s/%s: %w", namespace, name, errNoPod)
	}
	return n.finish(ctx, p, corev1.PodFailed, "Simulated", message, 1)
}

// Complete makes a pod Succeeded, as if its containers had ended with exit code
// 0: its address refuses from now on. The pod stays until it is deleted.
func (n *Node) Complete(ctx context.Context, namespace, name string) error {
	p := n.find(namespace, name)
	if p == nil {
		return fmt.Errorf("completing pod %s/%s: %w", namespace, name, errNoPod)
	}
	return n.finish(ctx, p, corev1.PodSucceeded, "Simulated", "", 0)
}

// SetReady makes a running pod Ready or not Ready. It keeps its address and goes
// on answering.
func (n *Node) SetReady(ctx context.Context, namespace, name string, ready bool) error {
	p := n.find(namespace, name)
	if p == nil {
		return fmt.Errorf("changing the readiness of pod %s/%s: %w", namespace, name, errNoPod)
	}
	return n.change(ctx, p, false, func(status *corev1.PodStatus, now metav1.Time) {
		setConditions(status, readiness(ready, now))
		for i := range status.ContainerStatuses {
			status.ContainerStatuses[i].Ready = ready
		}
	})
}
