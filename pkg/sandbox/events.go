package sandbox

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	eventsv1client "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/session"
)

// KindConfigMap is the kind of a Happening's object that carries no session.
const KindConfigMap = "ConfigMap"

// Happening is what an operator would ask about: it becomes an Event, which
// `kubectl describe` and `kubectl events` show with the object.
type Happening struct {
	// Object is a Sandbox, a SandboxClaim or a ConfigMap. It may be gone.
	Object session.ObjectRef
	// Warning: somebody may want to look.
	Warning bool
	// Reason and Action are one CamelCase word each: why, and what was done.
	Reason, Action string
	// Note is for people. What is over a kilobyte is cut off.
	Note string
}

// Bounds of the events that a process makes. They are about single objects; an
// outage that touches thousands is told by metrics.
const (
	eventsPerSecond = 10
	eventsBurst     = 100
	// maxNote and maxInstance are the API server's (pkg/apis/core/validation,
	// events.go).
	maxNote     = 1024
	maxInstance = 128
)

// Events makes Events, some at a time and in the background. Losing one fails
// nothing: when there are too many, or the API server does not take them, they
// are counted and dropped.
type Events struct {
	clock    clock.PassiveClock
	client   eventsv1client.EventsGetter
	api      API
	instance string
	timeout  time.Duration
	log      *zap.Logger

	limit   *rate.Limiter
	pending chan Happening
	made    atomic.Uint64
	lost    atomic.Uint64
	serial  atomic.Uint64
}

// NewEvents makes events in the name of the process. Nothing is sent before
// Run. A Sandbox's event names the version that api does.
func NewEvents(clk clock.PassiveClock, c eventsv1client.EventsGetter, api API, process string, options ClientOptions, log *zap.Logger) *Events {
	if options.CallTimeout <= 0 {
		options.CallTimeout = defaultCallTimeout
	}
	return &Events{
		clock: clk, client: c, api: api, instance: cut(process, maxInstance), timeout: options.CallTimeout, log: log,
		limit: rate.NewLimiter(eventsPerSecond, eventsBurst), pending: make(chan Happening, eventsBurst),
	}
}

// Tell takes a happening. It does not block. A nil Events takes none.
func (e *Events) Tell(h Happening) {
	if e == nil {
		return
	}
	if !e.limit.AllowN(e.clock.Now(), 1) {
		e.lost.Add(1)
		return
	}
	select {
	case e.pending <- h:
	default:
		e.lost.Add(1)
	}
}

// Run sends until ctx ends, and returns nil.
func (e *Events) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case h := <-e.pending:
			e.send(ctx, h)
		}
	}
}

func (e *Events) send(ctx context.Context, h Happening) {
	event, err := e.event(h)
	if err == nil {
		bounded, cancel := context.WithTimeout(ctx, e.timeout)
		defer cancel()
		_, err = e.client.Events(event.Namespace).Create(bounded, event, metav1.CreateOptions{FieldManager: ManagedByAgentCube})
	}
	if err != nil {
		e.lost.Add(1)
		e.log.Debug("event is lost", zap.Stringer("object", h.Object), zap.String("reason", h.Reason), zap.Error(err))
		return
	}
	e.made.Add(1)
}

func (e *Events) event(h Happening) (*eventsv1.Event, error) {
	apiVersion := "v1"
	if h.Object.Kind != KindConfigMap {
		resource, err := e.api.of(h.Object.Kind)
		if err != nil {
			return nil, err
		}
		apiVersion = resource.GroupVersion().String()
	}
	kind := corev1.EventTypeNormal
	if h.Warning {
		kind = corev1.EventTypeWarning
	}
	now := e.clock.Now()
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.Object.Namespace,
			Name:      fmt.Sprintf("%s.%x.%x", h.Object.Name, now.UnixNano(), e.serial.Add(1)),
		},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: ManagedByAgentCube,
		ReportingInstance:   e.instance,
		Type:                kind, Reason: h.Reason, Action: h.Action, Note: cut(h.Note, maxNote),
		Regarding: corev1.ObjectReference{
			APIVersion: apiVersion, Kind: h.Object.Kind, Namespace: h.Object.Namespace, Name: h.Object.Name,
			UID: types.UID(h.Object.UID),
		},
	}, nil
}

// cut shortens text to so many bytes, between two characters.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

var eventsDesc = prometheus.NewDesc("agentcube_events_total",
	"Kubernetes Events: made, or lost since there were too many or the API server did not take them.", []string{"result"}, nil)

// Describe implements prometheus.Collector.
func (e *Events) Describe(out chan<- *prometheus.Desc) { out <- eventsDesc }

// Collect implements prometheus.Collector.
func (e *Events) Collect(out chan<- prometheus.Metric) {
	for result, n := range map[string]*atomic.Uint64{"made": &e.made, "lost": &e.lost} {
		out <- prometheus.MustNewConstMetric(eventsDesc, prometheus.CounterValue, float64(n.Load()), result)
	}
}
