package workloadmanager_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

// waiting is a read that is under way.
type waiting struct {
	answer chan *httptest.ResponseRecorder
	began  time.Time
	leave  func()
}

func (r *rig) waits(t *testing.T, query string) waiting {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	w := waiting{answer: make(chan *httptest.ResponseRecorder, 1), began: time.Now(), leave: leave}
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, ofKnown+"?"+query, nil)
	go func() {
		w.answer <- r.serve(t, request)
	}()
	synctest.Wait()
	return w
}

// creating is a row that is being created.
func creating(s *session.Session) {
	s.State, s.EntryPoints, s.Generation = session.StateCreating, nil, 0
}

// becomesReady commits the row, as another replica would.
func (r *rig) becomesReady(t *testing.T) {
	t.Helper()
	_, err := r.rows.Update(t.Context(), knownID, func(s *session.Session) error { s.State = session.StateReady; return nil })
	require.NoError(t, err)
}

func TestAReadWaitsForAChangeOfState(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		query string
		// told: the store tells of changes.
		told bool
		do   func(*testing.T, *rig)
		// state and after are the answer; status unless it is 200.
		state  string
		status int
		after  time.Duration
	}{
		"that it is told of": {
			"wait=30s", true, func(t *testing.T, r *rig) { r.becomesReady(t); r.hub.Changed([]string{knownID}) },
			"ready", 0, 0,
		},
		"that it was not told of": {
			"wait=30s", true, func(t *testing.T, r *rig) { r.becomesReady(t) },
			"ready", 0, 10 * time.Second,
		},
		"of a store that does not tell": {
			"wait=30s", false, func(t *testing.T, r *rig) { r.becomesReady(t) },
			"ready", 0, time.Second,
		},
		"that may have been missed while the store was away": {
			"wait=30s", true, func(t *testing.T, r *rig) {
				r.hub.Lost(true, errSecret)
				r.becomesReady(t)
				r.hub.Connected(time.Now(), true)
			},
			"ready", 0, 0,
		},
		"until the time is over": {
			"wait=30s", true, func(*testing.T, *rig) {}, "creating", 0, 30 * time.Second,
		},
		"and not for any other change": {
			"wait=30s", true, func(t *testing.T, r *rig) {
				_, err := r.rows.Update(t.Context(), knownID, func(s *session.Session) error { s.Message = "m"; return nil })
				require.NoError(t, err)
				r.hub.Changed([]string{knownID, sessiontest.ID(2)})
			}, "creating", 0, 30 * time.Second,
		},
		"to its end": {
			"wait=30s", true, func(t *testing.T, r *rig) { r.end(t, session.ReasonFailed); r.hub.Changed([]string{knownID}) },
			"", 404, 0,
		},
		"until the process is to end": {
			"wait=30s", true, func(_ *testing.T, r *rig) { r.hub.Close() }, "creating", 0, 0,
		},
		"of the state that the caller knows": {
			"wait=30s&from=creating", true, func(t *testing.T, r *rig) { r.becomesReady(t); r.hub.Changed([]string{knownID}) },
			"ready", 0, 0,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.put(t, creating)
				r.hub.Connected(time.Now(), c.told)
				w := r.waits(t, c.query)
				require.Empty(t, w.answer)
				require.Equal(t, 1, r.hub.Waiters())
				looks := r.store.Calls("Look")
				c.do(t, r)
				answer := <-w.answer
				assert.Equal(t, c.after, time.Since(w.began))
				assert.Zero(t, r.hub.Waiters())
				assert.LessOrEqual(t, r.store.Calls("Look")-looks, 5, "it looks when there is a reason")
				if c.status != 0 {
					require.Equal(t, c.status, answer.Code)
					assert.Equal(t, "failed", problemIn(t, answer).Reason)
					return
				}
				require.Equal(t, 200, answer.Code, answer.Body)
				assert.Equal(t, c.state, sessionIn(t, answer.Body.Bytes()).State)
			})
		})
	}
}

func TestAReadDoesNotWaitFor(t *testing.T) {
	t.Parallel()
	for sentence, query := range map[string]string{
		"nothing asked for":                    "",
		"no time":                              "wait=0s",
		"a state that has ended already":       "wait=30s&from=not-ready",
		"a state of another build, for itself": "wait=0&from=parked",
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.put(t)
				w := r.waits(t, query)
				answer := <-w.answer
				assert.Equal(t, 200, answer.Code)
				assert.Zero(t, time.Since(w.began))
			})
		})
	}
}

func TestAWaitThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	for _, query := range []string{
		"wait=", "wait=30", "wait=-1s", "wait=soon", "wait=121s", "wait=1e9s", "wait=1s&wait=2s", "wait=99999999h", "wait=%zz", "wait=1s;from=x",
	} {
		r := newRig(t)
		r.put(t)
		answer := r.do(t, http.MethodGet, ofKnown+"?"+query, "")
		require.Equal(t, 400, answer.Code, query)
		assert.Equal(t, "INVALID_REQUEST", problemIn(t, answer).Code, query)
		assert.Zero(t, r.store.Calls("Look"), query)
	}
}

func TestACallerThatHangsUpLeavesNothingWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put(t, creating)
		w := r.waits(t, "wait=2m")
		w.leave()
		<-w.answer
		assert.Zero(t, time.Since(w.began))
		assert.Zero(t, r.hub.Waiters())
		assert.EqualValues(t, 499, r.logs.FilterMessage("request").All()[0].ContextMap()["status"])
	})
}

func TestManyWaitForOneSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put(t, creating)
		r.hub.Connected(time.Now(), true)
		var all []waiting
		for range 20 {
			all = append(all, r.waits(t, "wait=2m"))
		}
		r.becomesReady(t)
		r.hub.Changed([]string{knownID})
		for _, w := range all {
			answer := <-w.answer
			assert.Equal(t, "ready", sessionIn(t, answer.Body.Bytes()).State)
		}
		assert.Zero(t, r.hub.Waiters())
	})
}
