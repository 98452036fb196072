package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pod is one pod that this node takes care of, by one goroutine.
type pod struct {
	name types.NamespacedName
	uid  types.UID

	life context.Context // until the pod is deleted, or the node stops
	end  context.CancelFunc

	hurry    context.CancelFunc // ends the silence that follows the pod
	lingers  context.Context
	released chan struct{} // closed once the address is free
	before   *pod          // the pod of the same name that was here before

	statusMu sync.Mutex // one status at a time; guards terminal
	terminal bool       // the pod has failed or succeeded: its status is final

	mu       sync.Mutex // guards endpoint
	endpoint *endpoint
}

func (p *pod) place() *endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endpoint
}

// add starts to take care of a pod. The caller holds n.mu.
func (n *Node) add(ctx context.Context, object *corev1.Pod) *pod {
	p := &pod{
		name:     types.NamespacedName{Namespace: object.Namespace, Name: object.Name},
		uid:      object.UID,
		released: make(chan struct{}),
		terminal: object.Status.Phase == corev1.PodFailed || object.Status.Phase == corev1.PodSucceeded,
	}
	p.life, p.end = context.WithCancel(ctx)
	p.lingers, p.hurry = context.WithCancel(ctx)
	p.before = n.byName[p.name]
	n.pods[p.uid], n.byName[p.name] = p, p
	n.work.Go(func() { n.care(ctx, p, object) })
	return p
}

// care follows a pod from its creation to the release of its address.
func (n *Node) care(ctx context.Context, p *pod, object *corev1.Pod) {
	defer n.forget(p)
	defer close(p.released)
	defer p.hurry()

	b, err := behaviourOf(object.Annotations, n.options)
	if err == nil && !p.terminal {
		err = n.boot(p, object, b)
	}
	if err != nil && p.life.Err() == nil {
		n.complain(p, err)
		if err := n.finish(p.life, p, corev1.PodFailed, "NodeError", err.Error(), 1); err != nil {
			n.complain(p, err)
		}
	}
	p.before = nil // let the collector have it
	<-p.life.Done()
	if ctx.Err() != nil { // the node stops; the object stays
		if e := p.place(); e != nil {
			e.shut()
		}
		return
	}
	n.bury(ctx, p, b)
}

// bury ends the address, then removes the object as a kubelet does whose
// containers have ended, and keeps a silent address for its time.
func (n *Node) bury(ctx context.Context, p *pod, b behaviour) {
	e := p.place()
	if e != nil {
		defer func() {
			e.shut()
			n.addresses.give(netip.MustParseAddr(e.address))
		}()
		if b.atEnd == Silent {
			if err := e.silence(); err != nil {
				n.complain(p, err)
			}
		} else {
			e.shut()
		}
	}
	if err := n.remove(ctx, p); err != nil {
		n.complain(p, err)
	}
	if e != nil && b.atEnd == Silent {
		n.wait(p.lingers, b.silentFor)
	}
}

// boot binds the pod and brings it to its working state.
func (n *Node) boot(p *pod, object *corev1.Pod, b behaviour) error {
	ctx := p.life
	if object.Spec.NodeName == "" {
		if err := n.bind(ctx, p); err != nil {
			return err
		}
	}
	if !n.wait(ctx, b.bootTime) {
		return nil
	}
	if b.fails || b.exits {
		return n.finish(ctx, p, b.endPhase(), "Simulated", b.failMessage, b.endCode())
	}
	return n.run(ctx, p, object, b)
}

// run gives the pod its address, listens there and reports it running.
func (n *Node) run(ctx context.Context, p *pod, object *corev1.Pod, b behaviour) error {
	e, err := n.settle(ctx, p, b)
	if err != nil {
		return err
	}
	ports := portsOf(object.Spec.Containers, b.tlsPorts)
	if !b.neverListen && b.listenDelay == 0 {
		if err := e.listen(ports, n.serveWeb); err != nil {
			return err
		}
	}
	if err := n.report(ctx, p, runningPatch(p, object, e.address, n.clock.Now(), !b.neverReady)); err != nil {
		return err
	}
	if b.neverListen || b.listenDelay == 0 || !n.wait(ctx, b.listenDelay) {
		return nil
	}
	return e.listen(ports, n.serveWeb)
}

// settle gives the pod its address.
func (n *Node) settle(ctx context.Context, p *pod, b behaviour) (*endpoint, error) {
	if p.before != nil && b.sameAddress {
		p.before.hurry()
		select {
		case <-p.before.released:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	address, err := n.addresses.take(p.name, b.sameAddress)
	if err != nil {
		return nil, err
	}
	e := newEndpoint(p.name, p.uid, address.String())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endpoint = e
	return e, nil
}

func (n *Node) bind(ctx context.Context, p *pod) error {
	return n.insist(ctx, "binding", func() error {
		err := n.options.Client.CoreV1().Pods(p.name.Namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.name.Namespace, Name: p.name.Name, UID: p.uid},
			Target:     corev1.ObjectReference{Kind: "Node", Name: n.options.Name},
		}, metav1.CreateOptions{})
		if apierrors.IsConflict(err) {
			return nil // it was bound by an attempt whose answer was lost, or is gone
		}
		return err
	})
}

// remove deletes the object for good.
func (n *Node) remove(ctx context.Context, p *pod) error {
	return n.insist(ctx, "removing", func() error {
		options := metav1.DeleteOptions{
			GracePeriodSeconds: new(int64),
			Preconditions:      &metav1.Preconditions{UID: &p.uid},
		}
		err := n.options.Client.CoreV1().Pods(p.name.Namespace).Delete(ctx, p.name.Name, options)
		if apierrors.IsConflict(err) {
			return nil // the name belongs to another pod by now
		}
		return err
	})
}

// Bounds of the back-off of insist.
const (
	firstBackOff = 50 * time.Millisecond
	lastBackOff  = 2 * time.Second
)

// insist repeats a request until it succeeds, since the API server may be down
// for a while. A pod that does not exist any more ends it without an error, and
// so does ctx; a request that the API server rejects as such ends it with one.
func (n *Node) insist(ctx context.Context, what string, request func() error) error {
	for pause := firstBackOff; ; pause = min(2*pause, lastBackOff) {
		err := request()
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return nil
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
			return fmt.Errorf("%s: %w", what, err)
		}
		if !n.wait(ctx, pause) {
			return nil
		}
	}
}

// wait tells whether the time passed before ctx ended.
func (n *Node) wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := n.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

func (n *Node) forget(p *pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pods, p.uid)
	if n.byName[p.name] == p {
		delete(n.byName, p.name)
	}
}

var errNoPod = errors.New("no such pod on this node")
