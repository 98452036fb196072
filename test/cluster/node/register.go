package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// register makes the Node object and marks it Ready.
func (n *Node) register(ctx context.Context) error {
	nodes := n.options.Client.CoreV1().Nodes()
	_, err := nodes.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   n.options.Name,
			Labels: map[string]string{corev1.LabelHostname: n.options.Name},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(ctx, n.options.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		// The API server taints a new node until someone says that it is ready.
		node.Spec.Taints = nil
		if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
		node.Status = n.status()
		_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

func (n *Node) status() corev1.NodeStatus {
	now := metav1.NewTime(n.clock.Now())
	room := corev1.ResourceList{
		corev1.ResourcePods:   resource.MustParse("60000"),
		corev1.ResourceCPU:    resource.MustParse("100000"),
		corev1.ResourceMemory: resource.MustParse("1Pi"),
	}
	return corev1.NodeStatus{
		Capacity:    room,
		Allocatable: room,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: hostIP},
			{Type: corev1.NodeHostName, Address: n.options.Name},
		},
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated",
			LastHeartbeatTime: now, LastTransitionTime: now,
		}},
	}
}
