package sandbox

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestARecordKeepsANote(t *testing.T) {
	t.Parallel()
	r := NewRecord(fake.NewClientset().CoreV1(), "agentcube", "note", ClientOptions{})
	_, err := r.Get(t.Context())
	require.ErrorIs(t, err, ErrNotFound)
	_, err = r.Create(t.Context(), Note{Data: map[string]string{"a": "1"}})
	require.NoError(t, err)
	_, err = r.Create(t.Context(), Note{})
	require.ErrorIs(t, err, ErrExists)
	note, err := r.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "1"}, note.Data)
	note.Data["b"], note.Annotations = "2", map[string]string{"said": "yes"}
	_, err = r.Update(t.Context(), note)
	require.NoError(t, err)
	note, err = r.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "1", "b": "2"}, note.Data)
	assert.Equal(t, map[string]string{"said": "yes"}, note.Annotations)
}

func TestAnUpdateCarriesTheVersionThatWasRead(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	held := &corev1.ConfigMap{}
	held.Namespace, held.Name, held.ResourceVersion, held.UID = "agentcube", "note", "7", "uid"
	require.NoError(t, c.Tracker().Add(held))
	var sent *corev1.ConfigMap
	c.PrependReactor("update", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		sent = action.(clienttesting.UpdateAction).GetObject().(*corev1.ConfigMap)
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "note", errors.New("modified"))
	})
	r := NewRecord(c.CoreV1(), "agentcube", "note", ClientOptions{})
	note, err := r.Get(t.Context())
	require.NoError(t, err)
	_, err = r.Update(t.Context(), note)
	require.ErrorIs(t, err, ErrConflict)
	assert.Equal(t, "7", sent.ResourceVersion, "what another wrote meanwhile must not be lost")
	assert.Equal(t, held.UID, sent.UID, "nor a ConfigMap that was made anew")
}
