package store

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

func TestWhyASessionEndedIsKnownForAnHour(t *testing.T) {
	t.Parallel()
	r, server := openMini(t)
	row, err := r.Create(t.Context(), sessiontest.Reserved(1, time.Now()))
	require.NoError(t, err)
	_, err = r.Update(t.Context(), row.ID, session.Delete(session.ReasonFailed, time.Time{}))
	require.NoError(t, err)
	require.NoError(t, r.Remove(t.Context(), row.ID, func(session.Session) error { return nil }))
	assert.Equal(t, []string{"agentcube:ended:" + row.ID}, server.Keys())
	server.FastForward(time.Hour - time.Millisecond)
	ending, err := r.Ended(t.Context(), row.ID)
	require.NoError(t, err)
	assert.Equal(t, session.ReasonFailed, ending.Reason)
	server.FastForward(time.Millisecond)
	_, err = r.Ended(t.Context(), row.ID)
	require.ErrorIs(t, err, ErrNotFound)
	assert.Empty(t, server.Keys(), "nothing needs to be swept")
}

// A hundred thousand sessions may end in an hour.
func TestWhatIsKeptOfASessionIsSmallWhateverItWas(t *testing.T) {
	t.Parallel()
	r, server := openMini(t)
	row := sessiontest.Reserved(1, time.Now())
	row.OwnerID = strings.Repeat("owner", 10_000)
	row, err := r.Create(t.Context(), row)
	require.NoError(t, err)
	require.NoError(t, r.Remove(t.Context(), row.ID, func(session.Session) error { return nil }))
	text, err := server.Get("agentcube:ended:" + row.ID)
	require.NoError(t, err)
	assert.Less(t, len(text), 128)
	ending, err := r.Ended(t.Context(), row.ID)
	require.NoError(t, err)
	assert.True(t, ending.VisibleTo(row.OwnerID))
	assert.False(t, ending.VisibleTo("another"))
}

func TestAnEndingThatCannotBeReadIsNotAnAbsence(t *testing.T) {
	t.Parallel()
	r, server := openMini(t)
	require.NoError(t, server.Set("agentcube:ended:"+sessiontest.ID(1), "{"))
	_, err := r.Ended(t.Context(), sessiontest.ID(1))
	require.ErrorIs(t, err, ErrCorrupt)
}
