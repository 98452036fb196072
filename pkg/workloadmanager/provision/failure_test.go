package provision_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/clustertest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

var errRefused = errors.New("connection refused")

func status(code int32, reason metav1.StatusReason) error {
	return clustertest.Answered(metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "no"})
}

// failure is a step of a create that fails.
type failure struct {
	// arm makes the step fail. then is to be called in that moment, so that
	// the undo meets what it breaks.
	arm func(w *world, then func())
	// check is what the caller is told.
	check func(t *testing.T, err error)
	// noRow and noObject: what does not exist in that moment.
	noRow, noObject bool
	// unknown: whether the object exists is not known.
	unknown bool
}

func is(target error) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		require.ErrorIs(t, err, target)
	}
}

func as[E error](t *testing.T, err error) {
	t.Helper()
	var target E
	require.ErrorAs(t, err, &target)
}

// refusedWith is the failure of the object's create with an answer.
func refusedWith(err error, check func(*testing.T, error)) failure {
	return failure{
		arm: func(w *world, then func()) {
			w.cluster.On("Create", func(context.Context) error { then(); return err })
		},
		check: check, noObject: true, unknown: sandbox.OutcomeUnknown(err),
	}
}

func failures() map[string]failure {
	return map[string]failure{
		"the reservation fails": {
			arm:   func(w *world, _ func()) { w.store.FailNext("Create", session.ErrUnavailable) },
			check: is(session.ErrUnavailable), noRow: true, noObject: true,
		},
		"the reservation's answer is lost": {
			arm: func(w *world, then func()) {
				w.store.Before("Create", then)
				w.store.FailAfter("Create", session.ErrUnavailable)
			},
			check: is(session.ErrUnavailable), noObject: true,
		},
		"the create is forbidden (403)": refusedWith(status(403, metav1.StatusReasonForbidden), as[*sandbox.RejectedError]),
		"the create conflicts (409)":    refusedWith(status(409, metav1.StatusReasonConflict), is(sandbox.ErrUnavailable)),
		"the create is invalid (422)":   refusedWith(status(422, metav1.StatusReasonInvalid), as[*sandbox.RejectedError]),
		"the API server sheds (429)":    refusedWith(status(429, metav1.StatusReasonTooManyRequests), is(sandbox.ErrUnavailable)),
		"the API server fails (500)":    refusedWith(clustertest.ErrDown, is(sandbox.ErrUnavailable)),
		"the create's answer is lost, not applied": refusedWith(
			clustertest.ErrUnanswered, is(sandbox.ErrUnavailable)),
		"the create's answer is lost, applied": {
			arm: func(w *world, then func()) {
				w.cluster.Before("Create", func() {})
				w.cluster.OnCreate(func(sandbox.Object) { then() })
				w.cluster.FailAfter("Create", clustertest.ErrUnanswered)
			},
			check: is(sandbox.ErrUnavailable),
		},
		"the sandbox fails for good": {
			arm: func(w *world, then func()) {
				w.cluster.OnCreate(func(o sandbox.Object) {
					w.clock.AfterFunc(time.Second, func() {
						w.cluster.Edit(o.Ref, func(o *sandbox.Object) {
							o.Failure = &sandbox.Failure{Reason: "PodFailed", Message: "exit 1"}
						})
						then()
					})
				})
			},
			check: as[*provision.FailedError],
		},
		"the sandbox does not become ready": {
			arm: func(w *world, then func()) {
				w.cluster.OnCreate(never)
				w.clock.AfterFunc(createBound-time.Millisecond, then)
			},
			check: as[*provision.TimeoutError],
		},
		"the sandbox does not listen": {
			arm: func(w *world, then func()) {
				w.prober.probe = func(ctx context.Context) error { <-ctx.Done(); then(); return errRefused }
			},
			check: as[*provision.UnreachableError],
		},
		"the commit is refused": {
			arm: func(w *world, then func()) {
				w.prober.probe = func(context.Context) error {
					w.store.FailNext("Update", session.ErrCorrupt)
					then()
					return nil
				}
			},
			check: func(t *testing.T, err error) {
				t.Helper()
				if !errors.Is(err, session.ErrUnavailable) { // of a store that is away by then
					require.ErrorIs(t, err, session.ErrCorrupt)
				}
			},
		},
	}
}

func eachFailure(t *testing.T, test func(t *testing.T, w *world, f failure, r provision.Request)) {
	t.Helper()
	for name, f := range failures() {
		for kind, request := range kinds {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, w *world) { test(t, w, f, request()) })
			})
		}
	}
	t.Run("the UID of the claim's sandbox cannot be read", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			test(t, w, failure{
				arm: func(w *world, then func()) {
					w.cluster.On("SandboxUID", func(context.Context) error { then(); return sandbox.ErrForbidden })
				},
				check: is(sandbox.ErrForbidden),
			}, warm())
		})
	})
}

func TestAFailureIsUndone(t *testing.T) {
	t.Parallel()
	eachFailure(t, func(t *testing.T, w *world, f failure, r provision.Request) {
		f.arm(w, func() {})
		_, err := w.p.Create(t.Context(), r)
		f.check(t, err)
		if f.noRow || f.noObject && !f.unknown {
			assert.Zero(t, w.cluster.Calls("Delete"), "what was not made is not deleted")
		}
		if !f.unknown {
			w.nothingLeft()
			return
		}
		// The API server may still apply the call.
		row := w.row()
		assert.Equal(t, session.StateDeleting, row.State)
		assert.Equal(t, w.clock.Now().Add(unknownBound).UTC(), row.UnknownUntil)
		w.indexesAgree()
		w.pass(unknownBound - time.Nanosecond)
		require.ErrorIs(t, w.p.Finish(t.Context(), row, true), provision.ErrUnsettled)
		assert.Equal(t, row, w.row())
		w.pass(time.Nanosecond)
		require.NoError(t, w.p.Finish(t.Context(), row, true))
		w.nothingLeft()
	})
}

func TestAnUndoThatCannotReachTheAPIServerIsLeftToTheCollector(t *testing.T) {
	t.Parallel()
	eachFailure(t, func(t *testing.T, w *world, f failure, r provision.Request) {
		f.arm(w, func() { w.cluster.Down(clustertest.ErrDown) })
		begun := w.clock.Now()
		_, err := w.p.Create(t.Context(), r)
		f.check(t, err)
		require.NoError(t, w.p.Wait(t.Context()))
		if f.noObject && !f.unknown {
			w.nothingLeft()
			return
		}
		assert.LessOrEqual(t, w.clock.Since(begun), createBound+probeBound+undoBound)
		row := w.row()
		assert.Equal(t, session.StateDeleting, row.State)
		assert.Equal(t, session.ReasonFailed, row.Reason)
		assert.Nil(t, row.EntryPoints)
		if f.noObject {
			assert.Empty(t, w.cluster.Objects())
		} else {
			assert.Len(t, w.cluster.Objects(), 1)
		}
		w.indexesAgree()
		require.Error(t, w.p.Finish(t.Context(), row, true), "the API server is still away")
		w.cluster.Down(nil)
		w.pass(unknownBound)
		require.NoError(t, w.p.Finish(t.Context(), row, true))
		w.nothingLeft()
	})
}

func TestAnUndoThatCannotReachTheStoreTakesTheObjectAwayAllTheSame(t *testing.T) {
	t.Parallel()
	eachFailure(t, func(t *testing.T, w *world, f failure, r provision.Request) {
		var mu sync.Mutex
		var back []func() // guarded by mu
		f.arm(w, func() {
			mu.Lock()
			defer mu.Unlock()
			for _, method := range []string{"Get", "Update", "Remove"} {
				back = append(back, w.store.Block(method))
			}
		})
		_, err := w.p.Create(t.Context(), r)
		f.check(t, err)
		require.NoError(t, w.p.Wait(t.Context()))
		assert.Empty(t, w.cluster.Objects())
		if !f.noRow {
			row := w.row()
			assert.NotEmpty(t, row.Creator.Token)
			assert.NotEqual(t, session.StateReady, row.State)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, release := range back {
			release()
		}
		w.collect()
		w.nothingLeft()
	})
}

func TestTheCallerWaitsOnlySoLongForTheUndo(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.prober.probe = func(context.Context) error { w.cluster.Hang("Delete"); return errRefused }
		_, err := w.p.Create(t.Context(), direct())
		as[*provision.UnreachableError](t, err)
		assert.Equal(t, answerBound, w.took())
		require.NoError(t, w.p.Wait(t.Context()))
		assert.Equal(t, undoBound, w.took(), "the undo goes on")
		assert.Equal(t, session.StateDeleting, w.row().State)
		w.collect()
		w.nothingLeft()
	})
}

func TestAnUndoRetriesWithinItsBound(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.prober.probe = func(context.Context) error {
			w.cluster.Down(clustertest.ErrDown)
			w.clock.AfterFunc(20*time.Second, func() { w.cluster.Down(nil) })
			return errRefused
		}
		_, err := w.p.Create(t.Context(), direct())
		as[*provision.UnreachableError](t, err)
		w.nothingLeft()
		assert.Less(t, w.took(), 25*time.Second)
		assert.Greater(t, w.cluster.Calls("Delete"), 5, "it tries again, ...")
		assert.Less(t, w.cluster.Calls("Delete"), 30, "... at growing intervals")
	})
}

func TestAReservationOfAnotherIsNotUndone(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.store.FailNext("Create", session.ErrExists)
		_, err := w.p.Create(t.Context(), direct())
		require.ErrorIs(t, err, session.ErrExists)
		assert.Zero(t, w.store.Calls("Update"))
		assert.Zero(t, w.store.Calls("Remove"))
	})
}

func TestTheUndoTouchesOnlyWhatIsOurs(t *testing.T) {
	t.Parallel()
	t.Run("not an object made anew under the name", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.prober.probe = func(context.Context) error {
				o := w.only()
				w.cluster.Kill(o.Ref)
				o.Ref.UID = "uid-of-a-stranger"
				w.cluster.Put(o)
				return errRefused
			}
			_, err := w.p.Create(t.Context(), direct())
			as[*provision.UnreachableError](t, err)
			require.NoError(t, w.p.Wait(t.Context()))
			assert.Empty(t, w.fake.Rows())
			assert.Equal(t, "uid-of-a-stranger", w.only().Ref.UID)
		})
	})
	t.Run("not an object without our label when the UID is not known", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.cluster.On("Create", func(context.Context) error {
				w.cluster.Put(sandbox.Object{Ref: w.row().Object, SessionID: "of-a-stranger"})
				return clustertest.ErrUnanswered
			})
			_, err := w.p.Create(t.Context(), direct())
			require.ErrorIs(t, err, sandbox.ErrUnavailable)
			require.NoError(t, w.p.Wait(t.Context()))
			assert.Empty(t, w.fake.Rows())
			assert.Len(t, w.cluster.Objects(), 1)
		})
	})
}

// moments are where a create can be met by what others do.
var moments = map[string]func(w *world, then func()){
	"before the object is sent": func(w *world, then func()) { w.cluster.Before("Create", then) },
	"before the answer": func(w *world, then func()) {
		w.cluster.OnCreate(func(sandbox.Object) { then() })
	},
	"while the sandbox starts": func(w *world, then func()) {
		w.cluster.OnCreate(never)
		w.clock.AfterFunc(time.Second, then)
	},
	"while it is probed": func(w *world, then func()) {
		w.prober.probe = func(ctx context.Context) error {
			then()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return nil
		}
	},
	"before the commit": func(w *world, then func()) {
		w.store.Before("Update", func() {}) // the record
		w.store.Before("Update", then)
	},
}

func TestAClientThatGoesAwayIsNotWaitedForAndItsCreateUndone(t *testing.T) {
	t.Parallel()
	for name, arm := range moments {
		for kind, request := range kinds {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, w *world) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var gone time.Time
					arm(w, func() { gone = w.clock.Now(); cancel() })
					if name == "before the answer" {
						w.cluster.FailAfter("Create", clustertest.ErrLeft)
					}
					_, err := w.p.Create(ctx, request())
					require.ErrorIs(t, err, provision.ErrClientGone)
					assert.Zero(t, w.clock.Since(gone), "it returns at once")
					w.nothingLeft()
				})
			})
		}
	}
	t.Run("while the API server does not answer", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, context.Canceled)
			defer cancel()
			w.cluster.Hang("Create")
			_, err := w.p.Create(ctx, direct())
			require.ErrorIs(t, err, provision.ErrClientGone)
			assert.Equal(t, time.Second, w.took())
			require.NoError(t, w.p.Wait(t.Context()))
			assert.Equal(t, session.StateDeleting, w.row().State)
			w.pass(unknownBound)
			w.collect()
			w.nothingLeft()
		})
	})
}

func TestADeletionEndsACreate(t *testing.T) {
	t.Parallel()
	for name, arm := range moments {
		for kind, request := range kinds {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, w *world) {
					arm(w, func() {
						require.NoError(t, w.p.Delete(t.Context(), w.row().ID, session.ReasonDeleted))
					})
					_, err := w.p.Create(t.Context(), request())
					require.ErrorIs(t, err, provision.ErrDeleted)
					assert.LessOrEqual(t, w.took(), time.Second, "the watch tells")
					w.nothingLeft()
				})
			})
			t.Run(name+", on another replica, only the row, "+kind, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, w *world) {
					arm(w, func() {
						_, err := w.fake.Update(t.Context(), w.row().ID, session.Delete(session.ReasonDeleted, time.Time{}))
						require.NoError(t, err)
					})
					_, err := w.p.Create(t.Context(), request())
					require.ErrorIs(t, err, provision.ErrDeleted)
					assert.LessOrEqual(t, w.took(), directRead)
					w.nothingLeft()
				})
			})
		}
	}
	t.Run("whose row is gone altogether", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			moments["while the sandbox starts"](w, func() {
				require.NoError(t, w.fake.Remove(t.Context(), w.row().ID, func(session.Session) error { return nil }))
			})
			_, err := w.p.Create(t.Context(), direct())
			require.ErrorIs(t, err, provision.ErrDeleted)
			assert.Equal(t, directRead, w.took())
			w.nothingLeft()
		})
	})
}
