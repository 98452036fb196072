package clustertest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentcube/agentcube/pkg/sandbox"
)

func TestAnswersAreThoseOfTheRealClient(t *testing.T) {
	t.Parallel()
	assert.True(t, sandbox.OutcomeUnknown(ErrUnanswered))
	require.ErrorIs(t, ErrUnanswered, sandbox.ErrUnavailable)
	assert.True(t, sandbox.OutcomeUnknown(ErrLeft))
	require.ErrorIs(t, ErrLeft, context.Canceled)
	assert.True(t, sandbox.OutcomeUnknown(ErrTooLate))
	require.ErrorIs(t, ErrTooLate, context.DeadlineExceeded)
	assert.True(t, sandbox.OutcomeUnknown(ErrDown))
	require.ErrorIs(t, ErrDown, sandbox.ErrUnavailable)
	refused := Answered(metav1.Status{Code: 422, Message: "no"})
	assert.False(t, sandbox.OutcomeUnknown(refused))
	var rejected *sandbox.RejectedError
	require.ErrorAs(t, refused, &rejected)
}
