package provision

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/utils/clock"
)

// step of a create, as metrics and traces name it.
type step string

const (
	stepPrepare step = "prepare" // the warm pool exists
	stepReserve step = "reserve" // the row
	stepObject  step = "object"  // the create call, and the object's UID into the row
	stepWait    step = "wait"    // until the sandbox is ready
	stepProbe   step = "probe"   // until it listens
	stepCommit  step = "commit"
	stepUndo    step = "undo"
)

var allSteps = []step{stepPrepare, stepReserve, stepObject, stepWait, stepProbe, stepCommit, stepUndo}

// steps are those of one create, one after the other. They belong to one
// goroutine.
type steps struct {
	clock   clock.PassiveClock
	metrics *Metrics
	path    string

	now   step // empty: none
	since time.Time
	span  trace.Span // nil: the trace is not recorded
}

func (p *Provisioner) newSteps(r Request) steps {
	return steps{clock: p.clock, metrics: p.options.Metrics, path: pathOf(r)}
}

// enter ends the step under way, if there is one, and begins the next. What it
// does is done with the context that is returned.
func (s *steps) enter(ctx context.Context, next step) context.Context {
	s.leave(nil)
	s.now, s.since = next, s.clock.Now()
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx
	}
	const scope = "github.com/agentcube/agentcube/pkg/workloadmanager/provision"
	ctx, s.span = parent.TracerProvider().Tracer(scope).Start(ctx, "create: "+string(next)) //nolint:spancheck // leave ends it
	return ctx                                                                              //nolint:spancheck // see above
}

// leave ends the step under way; err says that, and why, it failed.
func (s *steps) leave(err error) {
	if s.now == "" {
		return
	}
	s.metrics.stepped(s.path, s.now, s.clock.Since(s.since))
	if s.span != nil {
		if err != nil {
			s.span.SetStatus(codes.Error, err.Error())
		}
		s.span.End()
	}
	s.now, s.span = "", nil
}
