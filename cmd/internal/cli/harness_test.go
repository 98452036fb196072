package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/agentcube/agentcube/pkg/client/clienttest"
	"github.com/agentcube/agentcube/pkg/config"
)

var update = flag.Bool("update", false, "write the golden files anew; compare them with the wire by eye")

// hasty is a clock whose timers, unlike its tickers, are over at once.
type hasty struct{ *testingclock.FakeClock }

func (h hasty) NewTimer(d time.Duration) clock.Timer {
	timer := h.FakeClock.NewTimer(d)
	h.Step(d)
	return timer
}

// bench is a fake installation, and what the tool said so far.
type bench struct {
	*clienttest.Server
	clock      hasty
	kubeconfig string
	cluster    *httptest.Server
	transcript bytes.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		Server: clienttest.Serve("AgentRuntime/default/echo", "CodeInterpreter/default/python"),
		clock:  hasty{testingclock.NewFakeClock(clienttest.Start)},
	}
	t.Cleanup(b.Close)
	b.cluster = httptest.NewServer(http.HandlerFunc(apiServer))
	t.Cleanup(b.cluster.Close)
	b.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(b.kubeconfig, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test, namespace: default}}]
clusters: [{name: test, cluster: {server: %q}}]
users: [{name: test, user: {}}]
`, b.cluster.URL), 0o600))
	return b
}

// result of a command line.
type result struct {
	code        int
	out, errOut string
}

func (b *bench) options(in io.Reader, out, errOut io.Writer) Options {
	return Options{
		Name: "agentcube", Version: "v0", Clock: b.clock,
		Env: config.CLI{
			WorkloadManagerURL: b.URL.String(), RouterURL: b.URL.String(), Namespace: "agentcube", Token: "secret",
		},
		IOStreams: genericiooptions.IOStreams{In: in, Out: out, ErrOut: errOut},
	}
}

// run carries out one command line, and notes it in the transcript.
func (b *bench) run(ctx context.Context, in string, args ...string) result {
	var out, errOut bytes.Buffer
	line := append([]string{"--kubeconfig", b.kubeconfig}, args...)
	code := Run(ctx, b.options(strings.NewReader(in), &out, &errOut), line)
	hide := strings.NewReplacer(b.URL.String(), "http://services", b.cluster.URL, "http://cluster")
	r := result{code, hide.Replace(out.String()), hide.Replace(errOut.String())}
	fmt.Fprintf(&b.transcript, "$ agentcube %s\n%s", strings.Join(args, " "), r.out)
	for line := range strings.Lines(r.errOut) {
		fmt.Fprintf(&b.transcript, "! %s", line)
	}
	if code != 0 {
		fmt.Fprintf(&b.transcript, "exit code %d\n", code)
	}
	b.transcript.WriteString("\n")
	return r
}

// golden compares the transcript with its file.
func (b *bench) golden(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, b.transcript.Bytes(), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), b.transcript.String())
}

// apiServer answers the lists of templates.
func apiServer(w http.ResponseWriter, r *http.Request) {
	bodies := map[string]string{
		"agentruntimes":    "agentruntimes.json",
		"codeinterpreters": "codeinterpreters.json",
	}
	w.Header().Set("Content-Type", "application/json")
	name := bodies[filepath.Base(r.URL.Path)]
	if name == "" || !strings.HasPrefix(r.URL.Path, "/apis/runtime.agentcube.volcano.sh/v1alpha1/") {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not found","reason":"NotFound","code":404}`)
		return
	}
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(text)
}
