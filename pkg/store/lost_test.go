package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

// lostCase is a call, the text that tells its request from others, and what
// must be true once the call was repeated until an answer arrived.
type lostCase struct {
	request string
	call    func(*testing.T, *Redis) error
	check   func(*testing.T, *Redis)
}

var lostTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

var lostCases = map[string]lostCase{
	"a create happens once": {
		createScript.Hash(),
		func(t *testing.T, r *Redis) error {
			_, err := r.Create(t.Context(), sessiontest.Reserved(2, lostTime))
			return err
		},
		func(t *testing.T, r *Redis) {
			got, err := r.Get(t.Context(), sessiontest.ID(2))
			require.NoError(t, err)
			assert.Equal(t, int64(1), got.Revision)
		},
	},
	"a commit happens once": {
		updateScript.Hash(),
		func(t *testing.T, r *Redis) error {
			row := sessiontest.Reserved(1, lostTime)
			got, err := r.Update(t.Context(), row.ID, session.Commit(row.Creator.Token, sessiontest.Ready(row, "10.0.0.7")))
			if err == nil {
				assert.Equal(t, session.StateReady, got.State)
			}
			return err
		},
		func(t *testing.T, r *Redis) {
			got, err := r.Get(t.Context(), sessiontest.ID(1))
			require.NoError(t, err)
			assert.Equal(t, int64(2), got.Revision)
			assert.Equal(t, int64(1), got.Generation)
		},
	},
	"an end happens once": {
		updateScript.Hash(),
		func(t *testing.T, r *Redis) error {
			_, err := r.End(t.Context(), sessiontest.ID(1), lostTime, session.Delete(session.ReasonIdle, time.Time{}))
			return err
		},
		func(t *testing.T, r *Redis) {
			got, err := r.Get(t.Context(), sessiontest.ID(1))
			require.NoError(t, err)
			assert.Equal(t, int64(2), got.Revision)
			assert.Equal(t, session.StateDeleting, got.State)
		},
	},
	"a read before a change is repeated": {
		readScript.Hash(),
		func(t *testing.T, r *Redis) error {
			_, err := r.Update(t.Context(), sessiontest.ID(1), session.Delete(session.ReasonDeleted, time.Time{}))
			return err
		},
		func(t *testing.T, r *Redis) {
			assert.Equal(t, int64(2), rows(t, r)[sessiontest.ID(1)].Revision)
		},
	},
	"a session is kept": {
		keepScript.Hash(),
		func(t *testing.T, r *Redis) error {
			return r.Keep(t.Context(), sessiontest.ID(1), func(session.Snapshot) error { return nil })
		},
		func(t *testing.T, r *Redis) {
			assert.True(t, index(t, r, "session:last_activity")[sessiontest.ID(1)].After(lostTime))
		},
	},
	"an activity is recorded": {
		"session:last_activity",
		func(t *testing.T, r *Redis) error {
			return r.Touch(t.Context(), map[string]time.Time{sessiontest.ID(1): lostTime.Add(time.Second)})
		},
		func(t *testing.T, r *Redis) {
			assert.Equal(t, lostTime.Add(time.Second), index(t, r, "session:last_activity")[sessiontest.ID(1)])
		},
	},
	"an activity is read": {
		activityScript.Hash(),
		func(t *testing.T, r *Redis) error {
			last, err := r.LastActivity(t.Context(), sessiontest.ID(1))
			if err == nil {
				assert.Equal(t, lostTime, last)
			}
			return err
		},
		func(*testing.T, *Redis) {},
	},
	"a claim whose answer was lost is nobody's": {
		claimScript.Hash(),
		func(t *testing.T, r *Redis) error {
			_, err := r.Claim(t.Context(), sessiontest.ID(1), lostTime.Add(time.Hour))
			return err
		},
		func(t *testing.T, r *Redis) {
			assert.Equal(t, lostTime.Add(time.Hour), index(t, r, "agentcube:due")[sessiontest.ID(1)])
		},
	},
	"a due time moves": {
		"ZADD",
		func(t *testing.T, r *Redis) error {
			return r.Postpone(t.Context(), sessiontest.ID(1), lostTime.Add(time.Hour))
		},
		func(t *testing.T, r *Redis) {
			assert.Equal(t, lostTime.Add(time.Hour), index(t, r, "agentcube:due")[sessiontest.ID(1)])
		},
	},
	"what is due is read": {
		dueScript.Hash(),
		func(t *testing.T, r *Redis) error {
			due, err := r.Due(t.Context(), 10)
			if err == nil {
				assert.Len(t, due, 1)
			}
			return err
		},
		func(*testing.T, *Redis) {},
	},
	"indexes are healed": {
		"local healed",
		func(t *testing.T, r *Redis) error {
			put(t, r, sessiontest.Reserved(3, lostTime))
			_, err := r.Index(t.Context())
			return err
		},
		func(t *testing.T, r *Redis) {
			assert.Contains(t, index(t, r, "agentcube:creating"), sessiontest.ID(3))
		},
	},
	"lists are healed": {
		"local changed",
		func(t *testing.T, r *Redis) error {
			put(t, r, sessiontest.Reserved(3, lostTime))
			_, err := r.Index(t.Context())
			return err
		},
		func(t *testing.T, r *Redis) {
			page, err := r.List(t.Context(), session.Query{Limit: 10})
			require.NoError(t, err)
			assert.Len(t, page.Sessions, 2)
		},
	},
	"sessions are listed": {
		listScript.Hash(),
		func(t *testing.T, r *Redis) error {
			page, err := r.List(t.Context(), session.Query{State: session.StateCreating, Limit: 10})
			if err == nil {
				assert.Len(t, page.Sessions, 1)
			}
			return err
		},
		func(*testing.T, *Redis) {},
	},
	"the installation's id is set": {
		"agentcube:installation",
		func(t *testing.T, r *Redis) error {
			return r.SetInstallation(t.Context(), sessiontest.ID(9))
		},
		func(t *testing.T, r *Redis) {
			id, err := r.Installation(t.Context())
			require.NoError(t, err)
			assert.Equal(t, sessiontest.ID(9), id)
		},
	},
	"a heartbeat beats": {
		"agentcube:process:p",
		func(t *testing.T, r *Redis) error { return r.Beat(t.Context(), "p") },
		func(t *testing.T, r *Redis) {
			alive, err := r.Alive(t.Context(), "p")
			require.NoError(t, err)
			assert.True(t, alive["p"])
		},
	},
}

// withLosses is a store behind a proxy, with one session, and every script
// known to the server.
func withLosses(t *testing.T) (*Redis, *proxy) {
	t.Helper()
	needReal(t)
	config := realConfig(t)
	p := startProxy(t, "unix", config.Addrs[0])
	config.Addrs = []string{p.addr}
	r := open(t, config)
	loadScripts(t, r)
	_, err := r.Create(t.Context(), sessiontest.Reserved(1, lostTime))
	require.NoError(t, err)
	return r, p
}

func TestALostAnswerIsMadeGoodByTheClient(t *testing.T) {
	t.Parallel()
	for behaviour, c := range lostCases {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			r, p := withLosses(t)
			p.lose(1, c.request)
			require.NoError(t, c.call(t, r))
			require.Equal(t, int64(1), p.lost.Load(), "the answer was not lost, so nothing was tested")
			c.check(t, r)
			sessiontest.CheckIndexes(t, rows(t, r), subject(r).Indexes(t), time.Now(), time.Hour)
		})
	}
}

func TestAfterAllAnswersWereLostTheSameCallSucceeds(t *testing.T) {
	t.Parallel()
	for behaviour, c := range lostCases {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			r, p := withLosses(t)
			p.lose(2, c.request)
			require.ErrorIs(t, c.call(t, r), ErrUnavailable)
			require.Equal(t, int64(2), p.lost.Load())
			require.NoError(t, c.call(t, r))
			c.check(t, r)
			sessiontest.CheckIndexes(t, rows(t, r), subject(r).Indexes(t), time.Now(), time.Hour)
		})
	}
}

func TestARemovalWhoseAnswerWasLostFindsNothingMore(t *testing.T) {
	t.Parallel()
	r, p := withLosses(t)
	p.lose(1, removeScript.Hash())
	err := r.Remove(t.Context(), sessiontest.ID(1), func(session.Session) error { return nil })
	require.ErrorIs(t, err, ErrNotFound)
	require.Equal(t, int64(1), p.lost.Load())
	assert.Empty(t, rows(t, r))
	sessiontest.CheckIndexes(t, nil, subject(r).Indexes(t), time.Now(), 0)
	ending, err := r.Ended(t.Context(), sessiontest.ID(1))
	require.NoError(t, err)
	assert.Equal(t, session.ReasonDeletedInCluster, ending.Reason)
}

func TestAChangeOfLifetimesWhoseAnswersWereLostHappensOnce(t *testing.T) {
	t.Parallel()
	r, p := withLosses(t)
	row := sessiontest.Reserved(2, lostTime)
	row.State, row.ExpiresAt, row.MaxDuration = session.StateReady, lostTime.Add(time.Hour), 8*time.Hour
	put(t, r, row)
	longer := lostTime.Add(2 * time.Hour)

	p.lose(1, updateScript.Hash())
	got, err := r.Update(t.Context(), row.ID, session.Announce("mine", session.Change{ExpiresAt: longer}))
	require.NoError(t, err)
	require.Equal(t, int64(1), p.lost.Load())
	assert.Equal(t, session.Pending{Token: "mine", Life: true}, got.Pending)
	assert.Equal(t, row.ExpiresAt, got.ExpiresAt)
	assert.Equal(t, int64(1), got.Revision)

	p.lose(1, updateScript.Hash())
	got, err = r.Update(t.Context(), row.ID, session.Settle("mine", longer))
	require.NoError(t, err)
	require.Equal(t, int64(1), p.lost.Load())
	assert.Equal(t, session.Pending{}, got.Pending)
	assert.Equal(t, longer, got.ExpiresAt)
	assert.Equal(t, int64(2), got.Revision)
	assert.Equal(t, longer, index(t, r, "session:expiry")[row.ID])
}
