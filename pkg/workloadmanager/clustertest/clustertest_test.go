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
	assert.True(t, sandbox.OutcomeUnknown(Unanswered()))
	require.ErrorIs(t, Unanswered(), sandbox.ErrUnavailable)
	assert.True(t, sandbox.OutcomeUnknown(Left()))
	require.ErrorIs(t, Left(), context.Canceled)
	assert.True(t, sandbox.OutcomeUnknown(Down()))
	require.ErrorIs(t, Down(), sandbox.ErrUnavailable)
	refused := Answered(metav1.Status{Code: 422, Message: "no"})
	assert.False(t, sandbox.OutcomeUnknown(refused))
	var rejected *sandbox.RejectedError
	require.ErrorAs(t, refused, &rejected)
}
