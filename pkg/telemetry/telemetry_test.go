package telemetry

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

func TestRecordsAreJSONWithTheirLevelTimeAndCaller(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, level, err := NewLogger(FormatJSON, "info", zapcore.AddSync(&out))
	require.NoError(t, err)
	log.Debug("below the level")
	log.Info("hello", zap.Duration("took", 1500*time.Millisecond))
	var record map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &record))
	assert.Equal(t, "info", record["level"])
	assert.Equal(t, "hello", record["msg"])
	assert.InDelta(t, 1.5, record["took"], 0, "seconds")
	assert.Contains(t, record["caller"], "telemetry_test.go")
	_, err = time.Parse(time.RFC3339Nano, record["time"].(string))
	require.NoError(t, err)

	out.Reset()
	level.SetLevel(zapcore.DebugLevel)
	log.Debug("no longer below it")
	assert.Contains(t, out.String(), "no longer below it")
}

func TestRecordsForPeople(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, _, err := NewLogger(FormatConsole, "debug", zapcore.AddSync(&out))
	require.NoError(t, err)
	log.Debug("hello")
	assert.Contains(t, out.String(), "DEBUG\t")
	assert.Contains(t, out.String(), "\thello")
}

func TestLoggersThatDoNotExist(t *testing.T) {
	t.Parallel()
	_, _, err := NewLogger("xml", "info", nil)
	require.ErrorContains(t, err, "log format")
	_, _, err = NewLogger(FormatJSON, "loud", nil)
	require.ErrorContains(t, err, "log level")
}

//nolint:paralleltest // the bridge changes the whole process
func TestKlogGoesToTheLogger(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	bridge := BridgeKlog(zap.New(core))
	t.Cleanup(klog.ClearLogger)
	klog.InfoS("from klog", "pod", "a")
	klog.V(4).InfoS("too much of it")
	bridge.WithName("library").Info("from logr")
	bridge.Error(assert.AnError, "failed")

	require.Equal(t, 3, logs.Len())
	assert.Equal(t, "from klog", logs.All()[0].Message)
	assert.Equal(t, "a", logs.All()[0].ContextMap()["pod"])
	assert.Equal(t, "library", logs.All()[1].LoggerName)
	assert.Equal(t, zapcore.ErrorLevel, logs.All()[2].Level)
}

func TestBuilds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"a release": {
			debug.BuildInfo{
				GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"},
				Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}},
			}, "v1.2.3 (commit abc, go1.26.0)",
		},
		"a changed checkout": {
			debug.BuildInfo{
				GoVersion: "go1.26.0", Main: debug.Module{Version: "(devel)"},
				Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
			}, "(devel) (commit abc-dirty, go1.26.0)",
		},
		"nothing recorded": {debug.BuildInfo{}, "unknown (commit unknown, unknown)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, buildOf(&test.info).String())
		})
	}
	assert.NotEqual(t, "unknown", ReadBuild().Go)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := NewRegistry("router", Build{Version: "v1", Commit: "abc", Go: "go1.26"})
	recorder := httptest.NewRecorder()
	MetricsHandler(registry).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	require.Equal(t, http.StatusOK, recorder.Code)
	body := recorder.Body.String()
	assert.Contains(t, body, `agentcube_build_info{commit="abc",go="go1.26",program="router",version="v1"} 1`)
	assert.Contains(t, body, "\ngo_goroutines ")
	assert.Contains(t, body, "\nprocess_resident_memory_bytes ")
}

func TestABufferPassesWholeRecordsOnSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &passedOn{}
		buffered := Buffered(out)
		log, _, err := NewLogger(FormatJSON, "info", buffered)
		require.NoError(t, err)
		log.Info("first")
		synctest.Wait()
		assert.Empty(t, out.take())
		<-clock.RealClock{}.After(bufferInterval) // of the bubble
		synctest.Wait()
		assert.Contains(t, out.take(), "first")

		log.Info("last")
		require.NoError(t, log.Sync())
		assert.Contains(t, out.take(), "last", "at the end nothing is waited for")

		for range 2 * bufferSize / 100 { // each record is longer than that
			log.Info("many")
		}
		many := out.take()
		assert.NotEmpty(t, many)
		assert.True(t, strings.HasSuffix(many, "}\n"), "no record is cut in two")
		require.NoError(t, buffered.(*zapcore.BufferedWriteSyncer).Stop())
	})
}

// passedOn is what came out of a buffer, since it was last taken.
type passedOn struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (p *passedOn) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *passedOn) Sync() error { return nil }

func (p *passedOn) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.text.Reset()
	return p.text.String()
}
