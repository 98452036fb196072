package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAVerdictBecomesConditions(t *testing.T) {
	t.Parallel()
	now := metav1.Date(2026, 11, 30, 21, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		size, ready int32
		want        []metav1.Condition
	}{
		"an empty pool": {2, 0, []metav1.Condition{
			{Type: "Ready", Status: "False", Reason: "WarmPoolEmpty", Message: "0 of 2 sandboxes are ready"},
			{Type: "WarmPoolReady", Status: "False", Reason: "WarmPoolEmpty", Message: "0 of 2 sandboxes are ready"},
		}},
		"a pool in the making": {2, 1, []metav1.Condition{
			{Type: "Ready", Status: "True", Reason: "Available", Message: "sessions are served from the warm pool"},
			{Type: "WarmPoolReady", Status: "False", Reason: "WarmPoolFilling", Message: "1 of 2 sandboxes are ready"},
		}},
		"a full pool": {2, 2, []metav1.Condition{
			{Type: "Ready", Status: "True", Reason: "Available", Message: "sessions are served from the warm pool"},
			{Type: "WarmPoolReady", Status: "True", Reason: "WarmPoolFull", Message: "2 of 2 sandboxes are ready"},
		}},
		"a pool that was larger": {1, 2, []metav1.Condition{
			{Type: "Ready", Status: "True", Reason: "Available", Message: "sessions are served from the warm pool"},
			{Type: "WarmPoolReady", Status: "True", Reason: "WarmPoolFull", Message: "2 of 1 sandboxes are ready"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range test.want {
				test.want[i].ObservedGeneration = 7
				test.want[i].LastTransitionTime = now
			}

			got, changed := status{}.with(*observed(test.size, test.ready), 7, now)

			assert.True(t, changed)
			assert.Equal(t, test.want, got.conditions)
			assert.Equal(t, test.want[0].Status == metav1.ConditionTrue, *got.ready)
			_, changed = got.with(*observed(test.size, test.ready), 7, metav1.NewTime(now.Add(time.Hour)))
			assert.False(t, changed, "what is said already is not said again")
		})
	}
}

func TestTheTimeOfTransitionMovesWithTheStatusAlone(t *testing.T) {
	t.Parallel()
	began := metav1.Date(2026, 11, 30, 21, 0, 0, 0, time.UTC)
	later := metav1.NewTime(began.Add(time.Minute))
	filling, _ := status{}.with(*observed(3, 1), 1, began)

	more, changed := filling.with(*observed(3, 2), 1, later)
	require.True(t, changed)
	assert.Equal(t, began, meta.FindStatusCondition(more.conditions, ConditionWarmPoolReady).LastTransitionTime)

	full, changed := more.with(*observed(3, 3), 1, later)
	require.True(t, changed)
	assert.Equal(t, later, meta.FindStatusCondition(full.conditions, ConditionWarmPoolReady).LastTransitionTime)
	assert.Equal(t, began, meta.FindStatusCondition(full.conditions, ConditionReady).LastTransitionTime)

	_, changed = full.with(*observed(3, 3), 2, later)
	assert.True(t, changed, "a new generation is told")
	assert.Equal(t, "1 of 3 sandboxes are ready",
		meta.FindStatusCondition(filling.conditions, ConditionWarmPoolReady).Message, "the old value is not touched")
}

func TestReadyIsPutRightWhenTheConditionsAre(t *testing.T) {
	t.Parallel()
	now := metav1.Date(2026, 11, 30, 21, 0, 0, 0, time.UTC)
	said, _ := status{}.with(*observed(1, 1), 1, now)
	wrong := false
	for name, ready := range map[string]*bool{"missing": nil, "wrong": &wrong} {
		got, changed := status{ready: ready, conditions: said.conditions}.with(*observed(1, 1), 1, now)
		assert.True(t, changed, name)
		assert.True(t, *got.ready, name)
	}
}

func TestAStatusKeepsTheConditionsOfOthers(t *testing.T) {
	t.Parallel()
	now := metav1.Date(2026, 11, 30, 21, 0, 0, 0, time.UTC)
	theirs := metav1.Condition{Type: "Audited", Status: "True", Reason: "Yes", LastTransitionTime: now}
	cold := verdict{ready: finding{true, ReasonColdStart, ""}}
	warm, _ := status{conditions: []metav1.Condition{theirs}}.with(*observed(1, 1), 1, now)

	got, changed := warm.with(cold, 2, now)

	require.True(t, changed)
	assert.Nil(t, meta.FindStatusCondition(got.conditions, ConditionWarmPoolReady), "there is no pool to report on")
	assert.Equal(t, &theirs, meta.FindStatusCondition(got.conditions, "Audited"))
}

func TestAMessageFitsItsCondition(t *testing.T) {
	t.Parallel()
	long := finding{message: strings.Repeat("ä", maxMessage+1)}
	assert.Equal(t, strings.Repeat("ä", maxMessage), long.condition("Ready", 1, metav1.Now()).Message)
}

func TestAStatusThatCannotBeReadIsNone(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]any{
		"no object":                  "ready",
		"no list":                    map[string]any{"ready": "yes", "conditions": "all"},
		"no conditions":              map[string]any{"conditions": []any{int64(1), nil, map[string]any{}}},
		"a condition of other types": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "observedGeneration": "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := interpreterObject("x", echoInterpreter())
			object["status"] = raw
			got := parseStatus(&unstructured.Unstructured{Object: object})
			assert.Nil(t, got.ready)
			assert.Empty(t, got.conditions)
			assert.False(t, got.poolMade())
		})
	}
}
