package storm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/test/chaos/check"
)

// Planted is a bug that the programs can be made to have, and what brings it to
// light.
type Planted struct {
	// Bug is its name. The router has it, or else the workload-manager.
	Bug    string
	Router bool
	// Finds are kinds of violations one of which the checker must report.
	Finds []string
	// provoke does what a session meets every day, in a namespace of its own.
	provoke func(context.Context, *trial) error
}

// AllPlanted are all bugs.
func AllPlanted() []Planted {
	return []Planted{
		{Bug: "purge-without-uid", Finds: []string{check.EndedEarly, check.ObjectWithoutRow}, provoke: deletedCopy},
		{Bug: "undo-forgets-object", Finds: []string{check.ObjectWithoutRow}, provoke: hungUp},
		{Bug: "commit-without-token", Finds: []string{check.NotEnded}, provoke: deletedWhileCreating},
		{Bug: "remove-forgets-index", Finds: []string{check.EntryWithoutRow}, provoke: deleted},
		{Bug: "refresh-keeps-address", Finds: []string{check.WrongEndpoint}, provoke: podReplaced},
		{Bug: "delete-only-row", Finds: []string{check.ObjectWithoutRow}, provoke: deleted},
		{Bug: "collector-ignores-activity", Finds: []string{check.EndedEarly}, provoke: keptBusy},
		{Bug: "row-after-object", Finds: []string{check.ObjectWithoutRow}, provoke: creatorKilled},
		{Bug: "reconcile-ignores-deletions", Finds: []string{check.RowWithoutObject}, provoke: objectDeleted},
		{Bug: "delete-without-uid", Finds: []string{check.StrangerTouched}, provoke: nameTaken},
		{Bug: "change-forgets-object", Finds: []string{check.LifetimesDiffer}, provoke: shortened},
		{Bug: "router-serves-deleted", Router: true, Finds: []string{check.WrongAnswer}, provoke: deletedAfterUse},
	}
}

// trial is one scenario: a namespace and what was done in it.
type trial struct {
	*World
	model *model
	space *space
	bug   []string // of the environment
}

// Try makes the programs have the bug, or, with plant false, not, brings on what
// shows it and returns what the checker found. Without the bug it waits until
// the checker is content; with it, it looks for as long as the comparison of
// both sides leaves the time to.
func (w *World) Try(ctx context.Context, p Planted, plant bool) ([]check.Violation, error) {
	t := &trial{World: w, model: newModel()}
	if plant {
		t.bug = []string{plantedVariable + "=" + p.Bug}
		if err := w.replant(ctx, p, t.bug); err != nil {
			return nil, err
		}
	}
	// One comparison of both sides follows each start, and would mend what the
	// bug does before anybody sees it.
	err := w.compared(ctx)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("planted-%t-%s", plant, p.Bug)
	if t.space, err = w.makeSpace(ctx, name, "warm"); err != nil {
		return nil, err
	}
	if err := p.provoke(ctx, t); err != nil {
		return nil, fmt.Errorf("provoking %s: %w", p.Bug, err)
	}
	if !plant {
		_, violations, err := w.settle(ctx, t.model, settleWithin)
		return violations, err
	}
	violations, err := t.watch(ctx, p)
	return violations, errors.Join(err, t.sweep(ctx, p, name))
}

// replant starts the programs that have the bug again.
func (w *World) replant(ctx context.Context, p Planted, env []string) error {
	if p.Router {
		if err := w.Router.Stop(); err != nil {
			return err
		}
		w.Router.SetEnv(env...)
		return w.Router.Start(ctx)
	}
	for _, m := range w.managers {
		if err := m.Stop(); err != nil {
			return err
		}
	}
	return w.up(ctx, env)
}

// up starts the workload-managers. One with a bug is alone, or the other would
// set right what it does.
func (w *World) up(ctx context.Context, env []string) error {
	managers := w.managers
	if len(env) > 0 {
		managers = managers[:1]
	}
	var group errgroup.Group
	for _, m := range managers {
		group.Go(func() error { return m.restart(ctx, env...) })
	}
	return group.Wait()
}

// comparedWithin is how long the first comparison after a start may take, with
// the change of the lease before it.
const comparedWithin = 30 * time.Second

// compared returns once a workload-manager has compared both sides since it
// started.
func (w *World) compared(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, comparedWithin)
	defer cancel()
	for {
		for _, m := range w.managers {
			r := w.send(ctx, http.MethodGet, m.URL+"/metrics", nil, "")
			_, count, ok := bytes.Cut(r.body, []byte(`agentcube_resync_passes_total{outcome="done"} `))
			if ok && !bytes.HasPrefix(count, []byte("0\n")) {
				return nil
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for a comparison of both sides: %w", ctx.Err())
		}
		sleep(ctx, settleInterval)
	}
}

const (
	// bugShowsWithin is how long a planted bug has to show.
	bugShowsWithin = 20 * time.Second
	// bugStays is how long what it shows must last, or else it may be what
	// passes also without the bug.
	bugStays = 4 * time.Second
)

// watch returns the first violations of the kinds that are to be found that
// last.
func (t *trial) watch(ctx context.Context, p Planted) ([]check.Violation, error) {
	deadline := time.Now().Add(bugShowsWithin)
	var shown time.Time
	for {
		s, err := t.snapshot(ctx, t.model)
		if err != nil {
			return nil, err
		}
		t.ask(ctx, t.model, &s)
		var found []check.Violation
		for _, v := range check.Check(s) {
			if slices.Contains(p.Finds, v.Kind) {
				found = append(found, v)
			}
		}
		switch {
		case len(found) == 0 && time.Now().After(deadline), final(found), ctx.Err() != nil:
			return found, ctx.Err()
		case len(found) == 0:
			shown = time.Time{}
		case shown.IsZero():
			shown = time.Now()
		case time.Since(shown) >= bugStays:
			return found, nil
		}
		sleep(ctx, settleInterval)
	}
}

// sweep takes away what the bug has left, without the bug's help.
func (t *trial) sweep(ctx context.Context, p Planted, namespace string) error {
	if err := t.replant(ctx, p, nil); err != nil {
		return err
	}
	if err := t.remove(ctx, namespaceResource, "", namespace); err != nil {
		return err
	}
	// The next trial begins with a store and a cluster that agree.
	if _, err := t.redis.ZRemRangeByScore(ctx, check.IndexActivity, "-inf", "1").Result(); err != nil {
		return err
	}
	_, violations, err := t.settle(ctx, newModel(), settleWithin)
	if err == nil && len(violations) > 0 {
		err = fmt.Errorf("after the bug was taken out: %v", violations)
	}
	return err
}

// session makes one and wants it.
func (t *trial) session(ctx context.Context) (id, object string, err error) {
	r, created := t.create(ctx, 0, runtimeOf(t.space), "")
	if created.SessionID == "" {
		return "", "", fmt.Errorf("creating a session: %s %w", r, r.err)
	}
	t.model.told(created.SessionID, func(k *known) { k.workload, k.space = runtimeOf(t.space), t.space })
	return created.SessionID, created.SandboxName, nil
}

// deleteSession deletes one through the API and wants it granted.
func (t *trial) deleteSession(ctx context.Context, id string) error {
	done := t.model.ask(id, "deleted through the API")
	r := t.end(ctx, 0, id)
	done(r.outcome())
	if r.outcome() != granted {
		return fmt.Errorf("deleting session %s: %s", id, r)
	}
	return nil
}

// deleted: a session is deleted through the API.
func deleted(ctx context.Context, t *trial) error {
	id, _, err := t.session(ctx)
	if err != nil {
		return err
	}
	return t.deleteSession(ctx, id)
}

// deletedAfterUse: the same, after a request.
func deletedAfterUse(ctx context.Context, t *trial) error {
	id, _, err := t.session(ctx)
	if err != nil {
		return err
	}
	if r := t.invoke(ctx, runtimeOf(t.space), id); r.status != http.StatusOK {
		return fmt.Errorf("using session %s: %s", id, r)
	}
	return t.deleteSession(ctx, id)
}

// deletedCopy: an object with the copied label of a live session is deleted.
func deletedCopy(ctx context.Context, t *trial) error {
	id, _, err := t.session(ctx)
	if err != nil {
		return err
	}
	if err := t.copyLabel(ctx, t.space.name, "copy", id); err != nil {
		return err
	}
	return t.remove(ctx, t.api.Sandboxes(), t.space.name, "copy")
}

// hungUp: the caller of a create goes away.
func hungUp(ctx context.Context, t *trial) error {
	hurried, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.createOn(hurried, t.model, 0, t.space, nil)
	}()
	err := t.until(ctx, func(o check.Object) bool { return o.SessionID != "" })
	cancel()
	<-ended
	return err
}

// until waits for an object in the namespace of the trial.
func (t *trial) until(ctx context.Context, there func(check.Object) bool) error {
	for ctx.Err() == nil {
		objects, err := t.carriers(ctx)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if o.Namespace == t.space.name && there(o) {
				return nil
			}
		}
		sleep(ctx, lookInterval)
	}
	return ctx.Err()
}

// deletedWhileCreating: a session is deleted as soon as its row is there.
func deletedWhileCreating(ctx context.Context, t *trial) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.createOn(ctx, t.model, 0, t.space, nil)
	}()
	for ctx.Err() == nil {
		ids, err := t.redis.ZRange(ctx, check.IndexCreating, 0, -1).Result()
		if err != nil {
			return err
		}
		if len(ids) > 0 {
			err = t.deleteSession(ctx, ids[0])
			<-ended
			return err
		}
		sleep(ctx, time.Millisecond)
	}
	return ctx.Err()
}

// podReplaced: the pod is deleted and comes back.
func podReplaced(ctx context.Context, t *trial) error {
	_, object, err := t.session(ctx)
	if err != nil {
		return err
	}
	return t.remove(ctx, podResource, t.space.name, object)
}

// afterCreate is how long a create keeps the reconciler looking at its object.
const afterCreate = 3 * time.Second

// objectDeleted: the object of a session that has come to rest is deleted in the
// cluster.
func objectDeleted(ctx context.Context, t *trial) error {
	id, object, err := t.session(ctx)
	if err != nil {
		return err
	}
	sleep(ctx, afterCreate)
	err = t.remove(ctx, t.api.Sandboxes(), t.space.name, object)
	t.model.ask(id, "its Sandbox was deleted in the cluster")(outcomeOf(err))
	return err
}

// keptBusy: a session with a short idle timeout is used until well after it.
func keptBusy(ctx context.Context, t *trial) error {
	const idle = 3
	if outcome := t.createShort(ctx, t.model, 0, t.space, 0, idle); outcome != ready {
		return errors.New(outcome)
	}
	live := t.model.live(func(*known) bool { return true })
	if len(live) != 1 {
		return fmt.Errorf("%d sessions live, not 1", len(live))
	}
	end := time.Now().Add(2*idle*time.Second + 2*session.IdleGrace)
	for time.Now().Before(end) && ctx.Err() == nil {
		began := time.Now()
		r := t.invoke(ctx, live[0].workload, live[0].id)
		if r.status != http.StatusOK {
			return ctx.Err() // the checker says whether that is right
		}
		t.model.used(live[0].id, began, true)
		sleep(ctx, time.Second)
	}
	return ctx.Err()
}

// creatorKilled: the creator dies between the object and what comes next.
func creatorKilled(ctx context.Context, t *trial) error {
	m := t.managers[0]
	if err := m.Kill(); err != nil {
		return err
	}
	if err := m.restart(ctx, append(slices.Clone(t.bug), crashVariable+"=cluster.Create.after:1")...); err != nil {
		return err
	}
	t.createOn(ctx, t.model, 0, t.space, nil)
	m.waitExit(ctx, crashWithin)
	return m.restart(ctx, t.bug...)
}

// nameTaken: while no workload-manager runs, the object of a session is replaced
// by a stranger's of the same name; then the session is deleted.
func nameTaken(ctx context.Context, t *trial) error {
	id, object, err := t.session(ctx)
	if err != nil {
		return err
	}
	sandboxes := t.client.Resource(t.api.Sandboxes()).Namespace(t.space.name)
	old, err := sandboxes.Get(ctx, object, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, m := range t.managers {
		if err := m.Kill(); err != nil {
			return err
		}
	}
	if err := t.remove(ctx, t.api.Sandboxes(), t.space.name, object); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if now, err := sandboxes.Get(ctx, object, metav1.GetOptions{}); err != nil || now.GetUID() != old.GetUID() {
			break
		}
		sleep(ctx, lookInterval)
	}
	if err := t.copyLabel(ctx, t.space.name, object, id); err != nil {
		return err
	}
	t.model.mu.Lock()
	t.model.strangers[check.Key(session.KindSandbox, t.space.name, object)] = t.space.name
	t.model.mu.Unlock()
	done := t.model.ask(id, "its Sandbox was deleted in the cluster")
	done(granted)
	// At once after the start, before a comparison of both sides has found the
	// row out.
	if err := t.up(ctx, t.bug); err != nil {
		return err
	}
	t.end(ctx, 0, id)
	return nil
}
