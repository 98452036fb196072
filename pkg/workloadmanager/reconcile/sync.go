package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// sync makes the row of one session agree with its object.
func (r *Reconciler) sync(ctx context.Context, k key) error {
	row, err := r.store.Get(ctx, k.sessionID)
	if errors.Is(err, session.ErrNotFound) {
		// Its create was undone, or it was deleted: whoever did so deletes
		// the object.
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading session %s: %w", k.sessionID, err)
	}
	// A label copied by hand names a row that knows nothing of the object.
	if !row.Object.Same(k.ref) {
		return nil
	}
	object, present := r.cache.Get(k.ref)
	present = present && object.Ref.UID == k.ref.UID && object.SessionID == k.sessionID
	if !present {
		return r.syncAbsent(ctx, k, row)
	}
	return r.syncPresent(ctx, row, object)
}

// syncAbsent is for an object that the watch does not show any more. Its
// label may be all that went: only a direct read tells.
func (r *Reconciler) syncAbsent(ctx context.Context, k key, row session.Session) error {
	object, err := r.cluster.Get(ctx, k.ref)
	switch {
	case errors.Is(err, sandbox.ErrNotFound), err == nil && object.Ref.UID != k.ref.UID:
		return r.purge(ctx, row, k.ref)
	case err != nil:
		return fmt.Errorf("reading %s: %w", k.ref, err)
	case object.Deleting:
		return r.purge(ctx, row, k.ref)
	case object.SessionID != row.ID:
		if row.Object.UID != k.ref.UID {
			// Without a UID in the row nothing shows that the object is the
			// session's.
			return nil
		}
		r.log.Warn("the session's label was taken off its object; restoring it",
			zap.String("session", row.ID), zap.Stringer("object", k.ref))
		if err := r.cluster.SetSessionLabel(ctx, k.ref, row.ID); err != nil {
			return fmt.Errorf("restoring the label of %s: %w", k.ref, err)
		}
		r.tellRelabelled(row.ID, k.ref)
		return nil
	default:
		return r.syncPresent(ctx, row, object)
	}
}

func (r *Reconciler) syncPresent(ctx context.Context, row session.Session, object sandbox.Object) error {
	if object.Deleting {
		return r.purge(ctx, row, object.Ref)
	}
	switch row.State {
	case session.StateCreating:
		// In the hands of the creator, whose commit may rest on an older
		// object than this one.
		return errors.Join(r.explain(ctx, row, object), errCreating)
	case session.StateDeleting:
		// In the hands of whoever deletes it.
		return nil
	case session.StateReady, session.StateNotReady, session.StateSuspended:
	}
	if object.Failure != nil && object.Failure.Ended {
		return r.end(ctx, row, object)
	}
	seen, err := r.observe(ctx, row, object)
	if err != nil {
		return err
	}
	if err := r.refresh(ctx, row, seen.Observed); err != nil {
		return err
	}
	if seen.outdated {
		return errOutdated
	}
	return nil
}

// explain tells whoever reads a session that is being created for a while what
// it waits for. Most are ready sooner, without a write.
func (r *Reconciler) explain(ctx context.Context, row session.Session, object sandbox.Object) error {
	if object.Ready || object.Reason == "" || r.clock.Since(row.CreatedAt) < explainAfter {
		return nil
	}
	if row.Reason == object.Reason && row.Message == object.Message {
		return nil
	}
	_, err := r.store.Update(ctx, row.ID, session.Explain(object.Ref, object.Reason, object.Message))
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrStale) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("explaining session %s: %w", row.ID, err)
	}
	return nil
}

func (r *Reconciler) refresh(ctx context.Context, row session.Session, observed session.Observed) error {
	refresh := session.Refresh(observed, r.options.Newer)
	if tried := row.Clone(); errors.Is(refresh(&tried), session.ErrUnchanged) {
		// As after a start, when every object comes up: nothing to write.
		return nil
	}
	updated, err := r.store.Update(ctx, row.ID, refresh)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrStale) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("refreshing session %s: %w", row.ID, err)
	}
	if updated.Revision != row.Revision {
		r.log.Info("session refreshed", zap.String("session", row.ID), zap.Stringer("object", observed.Object),
			zap.String("state", string(updated.State)), zap.String("reason", updated.Reason),
			zap.Int64("generation", updated.Generation))
		r.tellRefreshed(row, updated)
	}
	return nil
}

// purge removes the row if it still names the object.
func (r *Reconciler) purge(ctx context.Context, row session.Session, gone session.ObjectRef) error {
	err := r.store.Remove(ctx, row.ID, session.Names(gone))
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrStale):
		return nil
	case err != nil:
		return fmt.Errorf("purging session %s: %w", row.ID, err)
	}
	r.log.Info("session purged: its object is gone", zap.String("session", row.ID), zap.Stringer("object", gone))
	r.options.Metrics.purged(causeObjectGone)
	return nil
}

// end finishes a session whose pod or time is over while its object stays.
func (r *Reconciler) end(ctx context.Context, row session.Session, object sandbox.Object) error {
	marked, err := r.store.Update(ctx, row.ID, func(s *session.Session) error {
		if err := session.Names(object.Ref)(*s); err != nil {
			return err
		}
		return session.Delete(endReason(object), time.Time{})(s)
	})
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrStale) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ending session %s: %w", row.ID, err)
	}
	r.log.Info("session ended: its sandbox is over", zap.String("session", row.ID),
		zap.Stringer("object", object.Ref), zap.String("reason", object.Failure.Reason))
	r.tellEnded(row.ID, object)
	return r.finisher.Finish(ctx, marked, false)
}

func endReason(object sandbox.Object) string {
	if object.Failure.Expired() {
		return session.ReasonExpired
	}
	return session.ReasonFailed
}
