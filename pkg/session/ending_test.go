package session

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEndingOf(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		state        State
		reason, want string
	}{
		"a row marked idle":                          {StateDeleting, ReasonIdle, "idle"},
		"a row marked expired":                       {StateDeleting, ReasonExpired, "expired"},
		"a row marked deleted":                       {StateDeleting, ReasonDeleted, "deleted"},
		"a row marked failed":                        {StateDeleting, ReasonFailed, "failed"},
		"a row marked by who does not say why":       {StateDeleting, "", "deleted"},
		"a row marked for a reason of another build": {StateDeleting, "Evicted", "deleted"},
		"a live row whose object is gone":            {StateReady, "", "deleted_in_cluster"},
		"a row that was not ready":                   {StateNotReady, "PodFailed", "deleted_in_cluster"},
		"a suspended row":                            {StateSuspended, "", "deleted_in_cluster"},
		"a row whose object went before it was made": {StateCreating, "", "deleted_in_cluster"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, Ending{Reason: c.want}, EndingOf(Session{State: c.state, Reason: c.reason}))
		})
	}
}

func TestAnEndingIsItsOwnersAffair(t *testing.T) {
	t.Parallel()
	owned, free := EndingOf(Session{OwnerID: "ann"}), EndingOf(Session{})
	assert.True(t, owned.VisibleTo("ann"))
	assert.False(t, owned.VisibleTo("bob"))
	assert.True(t, owned.VisibleTo(""), "a caller who need not say who it is")
	assert.NotContains(t, owned.OwnerHash, "ann")
	assert.True(t, free.VisibleTo("bob"))
}
