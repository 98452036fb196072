package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func names(objects []*unstructured.Unstructured) []string {
	var all []string
	for _, o := range objects {
		all = append(all, o.GetKind()+"/"+o.GetName())
	}
	return all
}

func TestManifestsAreReadDocumentByDocument(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream string
		want   []string
	}{
		"nothing":                 {"", nil},
		"comments and separators": {"# one\n---\n---\n# two\n", nil},
		"two documents":           {"kind: A\nmetadata: {name: x}\n---\nkind: B\nmetadata: {name: z}\n", []string{"A/x", "B/z"}},
		"a list":                  {"kind: List\nitems: [{kind: A, metadata: {name: x}}, {kind: B, metadata: {name: z}}]\n", []string{"A/x", "B/z"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := parseManifests([]byte(c.stream))
			require.NoError(t, err)
			assert.Equal(t, c.want, names(objects))
		})
	}
	for _, bad := range []string{"metadata: {name: x}", "kind: [", "- a\n- b\n"} {
		_, err := parseManifests([]byte(bad))
		assert.Error(t, err, bad)
	}
}

func TestAFolderIsReadInTheOrderOfItsNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, text := range map[string]string{"b.yaml": "kind: B", "a.yml": "kind: A", "note.txt": "no: kind"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	objects, err := readManifests(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"A/", "B/"}, names(objects))
	_, err = readManifests(filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
