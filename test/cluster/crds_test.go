package cluster

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestOnlyDefinitionsThatConvertByWebhookArePointedAtIt(t *testing.T) {
	t.Parallel()
	crd := func(strategy string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"conversion": map[string]any{
			"strategy": strategy,
			"webhook": map[string]any{
				"clientConfig":             map[string]any{"service": map[string]any{"name": "x"}},
				"conversionReviewVersions": []any{"v1"},
			},
		}}}}
	}
	hooked := crd("Webhook")
	converts, err := pointWebhook(hooked, "127.0.0.1:1234", []byte("authority"))
	require.NoError(t, err)
	assert.True(t, converts)
	webhook, _, err := unstructured.NestedMap(hooked.Object, "spec", "conversion", "webhook")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{
		"clientConfig": map[string]any{
			"url": "https://127.0.0.1:1234/convert", "caBundle": base64.StdEncoding.EncodeToString([]byte("authority")),
		},
		"conversionReviewVersions": []any{"v1"},
	}, webhook)

	for _, plain := range []*unstructured.Unstructured{crd("None"), {Object: map[string]any{}}} {
		before := plain.DeepCopy()
		converts, err := pointWebhook(plain, "127.0.0.1:1234", nil)
		require.NoError(t, err)
		assert.False(t, converts)
		assert.Equal(t, before, plain)
	}
}
