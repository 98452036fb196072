package workload

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// interpreterEvents enqueues what asks for another pool or another report. Our
// own reports do not: they leave the generation as it is.
func (s *syncer) interpreterEvents() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { s.enqueue(obj) },
		UpdateFunc: func(before, after any) {
			old, known := before.(*template)
			now, valid := after.(*template)
			if !known || !valid || old.UID != now.UID || old.Generation != now.Generation {
				s.enqueue(after)
			}
		},
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				s.queue.Forget(name)
			}
		},
	}
}

// ownedEvents enqueues the CodeInterpreter whose name a template or a pool
// bears, be it the owner or not: the removal of a stranger's object makes room
// for ours. What can wait is gathered for a moment; what somebody changed or
// deleted is mended at once.
func (s *syncer) ownedEvents() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: s.enqueueSoon,
		UpdateFunc: func(before, after any) {
			old, known := before.(metav1.Object)
			now, valid := after.(metav1.Object)
			switch {
			case !known || !valid:
				s.enqueue(after)
			case old.GetResourceVersion() == now.GetResourceVersion():
			case old.GetUID() == now.GetUID() && old.GetGeneration() == now.GetGeneration():
				s.enqueueSoon(after)
			default:
				s.enqueue(after)
			}
		},
		DeleteFunc: s.enqueue,
	}
}

func (s *syncer) enqueue(obj any) {
	if name, ours := s.interpreter(obj); ours {
		s.queue.Add(name)
	}
}

func (s *syncer) enqueueSoon(obj any) {
	if name, ours := s.interpreter(obj); ours {
		s.queue.AddAfter(name, settle)
	}
}

// interpreter is the CodeInterpreter of that object's name. There is none, or
// none yet: its own event will enqueue it.
func (s *syncer) interpreter(obj any) (cache.ObjectName, bool) {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return name, false
	}
	_, known := s.interpreters.get(name)
	return name, known
}

func (s *syncer) enqueueAll() {
	for _, obj := range s.interpreters.list() {
		s.enqueue(obj)
	}
}
