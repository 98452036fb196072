package binaries

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
)

// tiny is a program that builds in a moment, with definitions in its module.
var tiny = Binary{Name: "tiny", Module: "tiny", Package: "example.com/tiny", FirstTime: "a moment", CRDs: "example.com/tiny"}

// lines is a writer for several goroutines.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// newSource writes a source tree with the module of tiny.
func newSource(t *testing.T, program string) string {
	t.Helper()
	source := t.TempDir()
	module := filepath.Join(source, "modules", "tiny")
	write(t, filepath.Join(module, "go.mod"), "module example.com/tiny\n\ngo 1.26\n")
	write(t, filepath.Join(module, "go.sum"), "")
	write(t, filepath.Join(module, "main.go"), program)
	write(t, filepath.Join(module, "k8s", "crds", "tiny.yaml"), "kind: Tiny\n")
	return source
}

func newBuilder(source, cache string, log *lines) *Builder {
	return &Builder{clock: clock.RealClock{}, source: source, cache: cache, log: log}
}

const works = "package main\n\nfunc main() { print(\"works\") }\n"

func TestABinaryIsBuiltOnceWhoeverAsks(t *testing.T) {
	t.Parallel()
	source, cache, log := newSource(t, works), t.TempDir(), &lines{}
	var wg sync.WaitGroup
	for range 4 {
		// A builder each, as in several processes: only the file lock is shared.
		b := newBuilder(source, cache, log)
		wg.Go(func() {
			path, err := b.Path(t.Context(), tiny)
			if assert.NoError(t, err) {
				out, err := exec.CommandContext(t.Context(), path).CombinedOutput()
				assert.NoError(t, err)
				assert.Equal(t, "works", string(out))
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 1, strings.Count(log.String(), "building tiny (a moment the first time) …\n"), log)
	assert.Equal(t, 1, strings.Count(log.String(), "built tiny in "), log)

	said := log.String()
	b := newBuilder(source, cache, log)
	path, err := b.Path(t.Context(), tiny)
	require.NoError(t, err)
	assert.Equal(t, said, log.String(), "nothing is said when it is cached")
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".build-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestDefinitionsAreKeptBesideTheBinary(t *testing.T) {
	t.Parallel()
	b := newBuilder(newSource(t, works), t.TempDir(), &lines{})
	dir, err := b.CRDs(t.Context(), tiny)
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "tiny.yaml"))
	require.NoError(t, err)
	assert.Equal(t, "kind: Tiny\n", string(text))
}

func TestABuildThatFailsLeavesNothingAndSaysWhy(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	b := newBuilder(newSource(t, "package main\n\nfunc main() { missing() }\n"), cache, &lines{})
	for range 2 { // the second time too: nothing half-built counts
		_, err := b.Path(t.Context(), tiny)
		require.ErrorContains(t, err, "building tiny: go build")
		require.ErrorContains(t, err, "undefined: missing")
	}
	found, err := filepath.Glob(filepath.Join(cache, "*", "tiny"))
	require.NoError(t, err)
	assert.Empty(t, found)
}

func TestTheCacheKeyChangesWithAllThatDecidesTheBuild(t *testing.T) {
	t.Parallel()
	module := filepath.Join(newSource(t, works), "modules", "tiny")
	key := func(toolchain ...string) string {
		t.Helper()
		k, err := cacheKey(module, toolchain...)
		require.NoError(t, err)
		return k
	}
	before := key("go1", "linux", "amd64")
	assert.Equal(t, before, key("go1", "linux", "amd64"))
	assert.NotEqual(t, before, key("go2", "linux", "amd64"), "toolchain")
	assert.NotEqual(t, before, key("go1", "linux", "arm64"), "platform")
	assert.NotEqual(t, before, key("go1l", "inux", "amd64"), "parts do not run together")
	write(t, filepath.Join(module, "go.sum"), "x")
	changed := key("go1", "linux", "amd64")
	assert.NotEqual(t, before, changed, "go.sum")
	write(t, filepath.Join(module, "go.mod"), "module example.com/tiny\n")
	assert.NotEqual(t, changed, key("go1", "linux", "amd64"), "go.mod")
	_, err := cacheKey(t.TempDir())
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestBothVersionsOfAgentSandboxCanBeBuilt(t *testing.T) {
	t.Parallel()
	b, err := New(t.Context(), clock.RealClock{}, t.TempDir(), nil)
	require.NoError(t, err)
	versions, err := b.AgentSandboxVersions()
	require.NoError(t, err)
	assert.Equal(t, []string{"v0.5.6", "v0.4.6"}, versions)
}
