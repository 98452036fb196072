package storm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agentcube/agentcube/test/chaos/check"
)

// Options of a storm.
type Options struct {
	Seed uint64
	// Steps and Duration bound it; the first that is reached counts. Zero: no
	// bound.
	Steps    int
	Duration time.Duration
	// Round is how many steps lie between two checks; 100 by default.
	Round int
	// Cover demands that every crash point and every fault was met three times.
	Cover bool
}

const (
	defaultRound = 100
	// spaces are kept at a time, and so many sessions from round to round.
	spaces   = 3
	sessions = 30
	// atOnce bounds the requests under way.
	atOnce = 16
)

// storm is one run.
type storm struct {
	*World
	Options
	model   *model
	planner *Planner
	strikes *strikes
	points  *points
	report  *Report
	began   time.Time

	mu     sync.Mutex // guards the rest
	made   int        // namespaces and CodeInterpreters, for their names
	failed error
	frozen bool // a watch was frozen in this round
}

// Run passes a storm over the world. The error says that the storm itself could
// not go on; violations are in the report.
func Run(ctx context.Context, w *World, o Options) (*Report, error) {
	if o.Round == 0 {
		o.Round = defaultRound
	}
	s := &storm{
		World: w, Options: o, model: newModel(), strikes: newStrikes(w.faults()),
		report: newReport(o), began: time.Now(),
	}
	s.planner = NewPlanner(o.Seed, s.strikes.names)
	s.points = newPoints(s.planner, w.points)
	s.report.expect(w.points, s.strikes.names)
	for !s.over() && len(s.report.Violations) == 0 {
		if err := s.round(ctx); err != nil {
			return s.report, err
		}
	}
	s.report.Took = since(s.began)
	return s.report, ctx.Err()
}

func (s *storm) over() bool {
	return (s.Steps > 0 && s.report.Steps >= s.Steps) || (s.Duration > 0 && time.Since(s.began) >= s.Duration)
}

// round is: so many steps, one after the other begun and most of them at once;
// then calm, until the checker is content.
func (s *storm) round(ctx context.Context) error {
	s.report.Rounds++
	if err := s.prepare(ctx); err != nil {
		return err
	}
	s.frozen = false
	s.say("round %d: steps %d to %d", s.report.Rounds, s.report.Steps+1, s.report.Steps+s.Round)
	var under sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for range s.Round {
		step := s.planner.Next()
		sleep(ctx, step.Pause)
		if ctx.Err() != nil || s.failure() != nil {
			break
		}
		s.report.Steps++
		waits := step.Kind != Crash && step.Kind != Fault
		if waits {
			slots <- struct{}{}
		}
		under.Go(func() {
			began := time.Now()
			outcome := s.do(ctx, step)
			if waits {
				<-slots
			}
			s.report.count(step.Kind, outcome)
			s.say("  %4d %s: %s (%s)", step.Number, step.Kind, outcome, since(began))
		})
	}
	under.Wait()
	if err := errors.Join(ctx.Err(), s.failure()); err != nil {
		return err
	}
	return s.settle(ctx)
}

// prepare brings the number of namespaces and sessions to what a round begins
// with.
func (s *storm) prepare(ctx context.Context) error {
	m := s.model
	m.mu.Lock()
	var there []*space
	for _, p := range m.spaces {
		if !p.doomed && !p.doubted {
			there = append(there, p)
		}
	}
	m.spaces = there
	m.mu.Unlock()
	for len(there) < spaces {
		p, err := s.makeSpace(ctx, s.name("storm"), s.name("warm"))
		if err != nil {
			return err
		}
		there = append(there, p)
	}
	for _, p := range there {
		if t := m.warmOf(p); t != nil && !t.doomed && !t.doubted {
			continue
		}
		t, err := s.makeWarm(ctx, p.name, s.name("warm"))
		if err != nil {
			return err
		}
		m.mu.Lock()
		p.warm = t
		m.mu.Unlock()
	}
	m.mu.Lock()
	m.spaces = there
	m.mu.Unlock()
	for extra := len(m.live(func(*known) bool { return true })) - sessions; extra > 0; extra-- {
		s.deleteOne(ctx, m, extra%len(s.managers), uint64(extra))
	}
	return nil
}

// name makes a name that was never used.
func (s *storm) name(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	return fmt.Sprintf("%s-%d-%d", prefix, s.Seed%1000, s.made)
}

func (s *storm) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = errors.Join(s.failed, err)
}

func (s *storm) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

func (s *storm) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.log, time.Now().Format(stamp)+" "+format+"\n", args...)
}

// stamp begins each line.
const stamp = "15:04:05.000"

// do carries out one step and names its outcome.
func (s *storm) do(ctx context.Context, step Step) string {
	switch step.Kind {
	case Fault:
		return s.doFault(ctx, step)
	case Crash:
		return s.doCrash(ctx, step)
	case Delete:
		return s.deleteOne(ctx, s.model, s.manager(step), step.A)
	case DeleteCreating:
		return s.deleteCreating(ctx, s.model, s.manager(step), step.A)
	case Invoke:
		return s.invokeOne(ctx, s.model, step.A)
	case Patch:
		return s.patchOne(ctx, s.model, s.manager(step), step.A, step.C)
	case Keepalive:
		return s.keepOne(ctx, s.model, s.manager(step), step.A)
	case KubeObject:
		return s.kubeObject(ctx, s.model, step.A)
	case KubePod:
		return s.kubePod(ctx, s.model, step.A)
	case KubeAdopted:
		return s.kubeAdopted(ctx, s.model, step.A)
	case KubeLabel:
		return s.relabel(ctx, s.model, step.A, step.B)
	case Stranger:
		return s.stranger(ctx, s.model, step.A)
	default:
		return s.doInSpace(ctx, step)
	}
}

// doInSpace is for what needs a namespace.
func (s *storm) doInSpace(ctx context.Context, step Step) string {
	p := s.model.pickSpace(step.A)
	if p == nil {
		return nothing
	}
	i, warm := s.manager(step), s.model.warmOf(p)
	switch step.Kind {
	case CreateWarm:
		return s.createOn(ctx, s.model, i, p, warm)
	case CreateCold:
		return s.createOf(ctx, s.model, i, p, nil, coldOf(p), "", func(*known) {})
	case CreateShort:
		seconds := 10 + draw(step.C, 20)
		return s.createShort(ctx, s.model, i, p, seconds, draw(step.C>>32, 2)*seconds)
	case CreateRouter:
		if draw(step.C, 2) == 0 {
			warm = nil
		}
		return s.createThroughRouter(ctx, s.model, p, warm)
	case CreateHangUp:
		return s.createAndHangUp(ctx, s.model, i, p, between(step.C, 10*time.Millisecond, 600*time.Millisecond))
	case KubeTemplate:
		return s.kubeTemplate(ctx, s.model, p, s.name("warm"))
	case KubeNamespace:
		return s.strikes.without(partControl, func() string {
			return s.kubeNamespace(ctx, s.model, p, s.name("storm"), s.name("warm"))
		})
	default:
		return s.createOn(ctx, s.model, i, p, nil)
	}
}

func (s *storm) manager(step Step) int { return draw(step.B, len(s.managers)) }

func (s *storm) doFault(ctx context.Context, step Step) string {
	targets := []target{{0}, {1}, {0, 1}}
	if step.Fault == watchesFrozen {
		s.mu.Lock()
		s.frozen = true
		s.mu.Unlock()
	}
	held := between(step.B, shortFault, longFault)
	if err := s.strikes.strike(ctx, step.Fault, targets[draw(step.A, len(targets))], held); err != nil {
		s.fail(err)
		return err.Error()
	}
	return step.Fault
}

func (s *storm) doCrash(ctx context.Context, step Step) string {
	point := s.points.next()
	i := s.manager(step)
	c := crashing{
		point: point, times: 1, manager: i, other: 1 - i,
		gently: draw(step.A, 3) == 0, down: between(step.C, 0, 3*time.Second),
		provoke: s.provocation(s.model, point, i, step.C),
	}
	hit, err := s.crash(ctx, c)
	if err != nil {
		s.fail(fmt.Errorf("crashing %s at %s: %w", s.managers[i].Name(), point, err))
		return err.Error()
	}
	if !hit {
		s.points.missed(point)
		return "did not come to " + point
	}
	return point
}

// The bounds of the calm, from the end of the last fault on.
const (
	settleWithin = time.Minute
	// frozenWithin is for a watch that is silent without being closed.
	frozenWithin = 2 * time.Minute
	// settleInterval lies between two looks.
	settleInterval = 500 * time.Millisecond
)

// settle looks at both sides until the checker is content, or the bound has
// passed.
func (s *storm) settle(ctx context.Context) error {
	bound := settleWithin
	if s.frozen {
		bound = frozenWithin
	}
	began := time.Now()
	snapshot, violations, err := s.World.settle(ctx, s.model, bound)
	if err != nil {
		return err
	}
	for _, m := range s.managers {
		if m.PID() == 0 {
			violations = append(violations, check.Violation{Kind: ProcessEnded, Detail: m.Name(), Final: true})
		}
	}
	s.report.checked(snapshot)
	s.say("  settled in %s: %s", since(began), s.report.last)
	for _, v := range violations {
		text := v.String()
		if s.needsResync(s.model, v) {
			text += " [only a comparison of both sides heals this]"
		}
		s.say("  VIOLATION %s", text)
		s.report.Violations = append(s.report.Violations, text)
	}
	if len(violations) == 0 {
		s.model.roundDone(snapshot)
	}
	return nil
}

// ProcessEnded is a violation that the checker cannot see.
const ProcessEnded = "a program ended by itself"

// settle looks until the checker is content, the bound has passed, or what it
// found cannot heal.
func (w *World) settle(ctx context.Context, m *model, bound time.Duration) (check.Snapshot, []check.Violation, error) {
	deadline := time.Now().Add(bound)
	waiting := ""
	for {
		snapshot, err := w.snapshot(ctx, m)
		if err != nil {
			return snapshot, nil, err
		}
		violations := check.Check(snapshot)
		if len(violations) == 0 {
			w.ask(ctx, m, &snapshot)
			violations = check.Check(snapshot)
		}
		if len(violations) == 0 || time.Now().After(deadline) || final(violations) {
			return snapshot, violations, ctx.Err()
		}
		if first := fmt.Sprintf("%d to heal: %s", len(violations), violations[0]); first != waiting {
			waiting = first
			fmt.Fprintf(w.log, "%s   %s\n", time.Now().Format(stamp), first)
		}
		sleep(ctx, settleInterval)
		if ctx.Err() != nil {
			return snapshot, nil, ctx.Err()
		}
	}
}

func final(violations []check.Violation) bool {
	for _, v := range violations {
		if v.Final {
			return true
		}
	}
	return false
}
