package main

import (
	"bufio"
	"context"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/test/cluster/process"
)

func TestMediansAndPercentiles(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 3, median([]int{5, 1, 3, 4, 2}))
	assert.Zero(t, median([]time.Duration(nil)))
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[99-i] = i + 1 // 1 to 100
	}
	assert.Equal(t, 100, percentile(hundred, 99), "99 values are below it")
	assert.Equal(t, 1, percentile(hundred, 0))
	assert.Equal(t, 100, percentile(hundred, 100))
}

const wrkOutput = `Running 2s test @ http://127.0.0.1:20000/small
  1 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   233.14us  191.06us   7.07ms   96.22%%
Requests/sec:  69345.31
Transfer/sec:      8.60MB
figures {"requests":20000,"micros":2000000,"p50":180,"p99":2500,"connect":0,"read":0,"write":0,"timeout":0,"status":%d}
`

func TestFiguresOfWrkAreRead(t *testing.T) {
	t.Parallel()
	got, err := parseTurn(fmt.Appendf(nil, wrkOutput, 0))
	require.NoError(t, err)
	assert.Equal(t, turn{
		requests: 20000, took: 2 * time.Second, p50: 180 * time.Microsecond, p99: 2500 * time.Microsecond,
	}, got)
	assert.InDelta(t, 10000, got.rate(), 0)
}

func TestATurnThatMeansNothingIsAnError(t *testing.T) {
	t.Parallel()
	for name, output := range map[string]string{
		"requests failed": fmt.Sprintf(wrkOutput, 3),
		"no figures":      "unable to connect\n",
		"no JSON":         "figures {\n",
		"no request":      `figures {"requests":0,"micros":2000000}` + "\n",
	} {
		_, err := parseTurn([]byte(output))
		require.Error(t, err, name)
	}
}

func turns(rates ...int) []turn {
	var all []turn
	for _, rate := range rates {
		all = append(all, turn{requests: rate, took: time.Second, p50: time.Second / time.Duration(rate)})
	}
	return all
}

func TestAPointComparesMedians(t *testing.T) {
	t.Parallel()
	p := point{turns: map[string][]turn{"bare": turns(1000, 2000, 500), "ours": turns(900, 800, 1000)}}
	assert.InDelta(t, 900, p.rate("ours"), 0)
	assert.InDelta(t, 0.9, p.ratio("ours", "bare"), 1e-9)
	low, high := p.spread("ours", "bare")
	assert.InDelta(t, 0.4, low, 1e-9, "800 beside 2000")
	assert.InDelta(t, 2, high, 1e-9, "1000 beside 500")
	assert.Equal(t, time.Millisecond, p.latency("bare", median50))
}

// printed is a bench that writes to a buffer.
func printed(sessions ...int) (*bench, *strings.Builder) {
	var out strings.Builder
	b := &bench{out: &out, parties: parties{direct: &party{name: "direct"}, bare: &party{name: "bare"}}}
	for _, n := range sessions {
		b.parties.routers = append(b.parties.routers, &party{name: fmt.Sprintf("router %d", n), sessions: n, router: true})
	}
	return b, &out
}

func TestThroughputIsPrintedBesideItsBoundAndCharted(t *testing.T) {
	t.Parallel()
	b, out := printed(1, 1000)
	points := []point{{connections: 1, turns: map[string][]turn{
		"direct": turns(4000), "bare": turns(1000), "router 1": turns(900), "router 1000": turns(800),
	}}}
	b.printThroughput("small bodies", points)
	b.printAdded(points)
	b.chartThroughput("small", "small bodies", points)

	for line := range strings.Lines(out.String()) {
		assert.Equal(t, strings.HasPrefix(line, "router 1000") && strings.Contains(line, "0.80"),
			strings.Contains(line, "below the bound"), line)
	}
	assert.Contains(t, out.String(), "router 1000, one connection: p50 is that of the bare proxy +0.250 ms")
	require.Len(t, b.charts, 2)
	rates, ratios := b.charts[0], b.charts[1]
	assert.Equal(t, []string{"1"}, rates.Categories)
	assert.Equal(t, series{Name: "direct", Values: []float64{4000}}, rates.Series[0])
	assert.Len(t, rates.Series, 4)
	require.Len(t, ratios.Series, 2, "the routers")
	assert.InDelta(t, 0.8, ratios.Series[1].Values[0], 1e-9)
	assert.InDelta(t, 0.85, ratios.Bound.Value, 0)
}

func TestTheRouterWithEnoughSessionsIsChosen(t *testing.T) {
	t.Parallel()
	b, _ := printed(1, 1000, 100_000)
	assert.Equal(t, 1000, b.parties.of(1000).sessions)
	assert.Equal(t, 100_000, b.parties.of(1001).sessions)
	few, _ := printed(1, 10)
	assert.Equal(t, 10, few.parties.of(1000).sessions)
}

func TestEverySecondRoundIsTheOtherWayRound(t *testing.T) {
	t.Parallel()
	b, _ := printed(1)
	first, second := inTurn(b.parties.all(), 0), inTurn(b.parties.all(), 1)
	assert.Equal(t, b.parties.all(), first)
	for i, p := range second {
		assert.Same(t, first[len(first)-1-i], p)
	}
}

func TestRoutersAreWarmedBeforeTokensGetStale(t *testing.T) {
	t.Parallel()
	assert.True(t, staleWithin(time.Since(time.Time{}), time.Minute), "they never were")
	assert.True(t, staleWithin(tokenLife-time.Minute+time.Second, time.Minute))
	assert.False(t, staleWithin(tokenLife-time.Minute-time.Second, time.Minute))
	assert.True(t, staleWithin(0, 2*tokenLife), "a point longer than their life")
}

func TestDelaysOfEvents(t *testing.T) {
	t.Parallel()
	since := time.Now()
	early, late := since.Add(-time.Second), since.Add(time.Millisecond)
	stream := fmt.Sprintf("data: %d\n\ndata: %d\n\n", early.UnixNano(), late.UnixNano())
	delays, err := read(bufio.NewReader(strings.NewReader(stream)), since)
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, delays, 1, "what was sent before does not count")
	_, err = read(bufio.NewReader(strings.NewReader("data: soon\n")), since)
	require.ErrorContains(t, err, "soon")
}

func TestAStreamThatEndsEarlyIsAnError(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	stream := &http.Response{Body: io.NopCloser(strings.NewReader(""))}
	_, err := collect(ctx, []*http.Response{stream}, time.Now(), time.Hour, end)
	require.ErrorContains(t, err, "ended early")
}

func TestTheLiveHeapIsThatOfTheLastWholeLine(t *testing.T) {
	t.Parallel()
	log := `gc 1 @0.056s 1%: 0.018+1.3+0.008 ms clock, 0.03+0.1/1.0/0.1+0.01 ms cpu, 4->5->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P
{"level":"info","msg":"request","session":"4->5->99 MB, "}
gc 2 @1.2s 2%: 0.018+1.3+0.008 ms clock, 0.03+0.1/1.0/0.1+0.01 ms cpu, 40->45->23 MB, 46 MB goal, 0 MB stacks, 0 MB globals, 2 P
gc 3 @1.9s 2%: 0.018+1.3{"level":"info"}
+0.008 ms clock, 0.03+0.1/1.0/0.1+0.01 ms cpu, 40->45->77 MB, 46 MB goal
`
	live, ok := liveHeap([]byte(log))
	require.True(t, ok)
	assert.Equal(t, int64(23<<20), live)
	_, ok = liveHeap(nil)
	assert.False(t, ok)
}

func TestTheMemoryLimitIsThatOfTheManifests(t *testing.T) {
	t.Parallel()
	limit, err := shippedLimit("../../../" + manifest)
	require.NoError(t, err)
	assert.Regexp(t, `^\d+MiB$`, limit)
	other := filepath.Join(t.TempDir(), "other.yaml")
	require.NoError(t, os.WriteFile(other, []byte("kind: Deployment\n"), 0o600))
	_, err = shippedLimit(other)
	require.ErrorContains(t, err, "GOMEMLIMIT")
}

func TestRoutersFindTheirKey(t *testing.T) {
	t.Parallel()
	served, err := serveIdentity(t.Context())
	require.NoError(t, err)
	t.Cleanup(served.close)
	config, err := clientcmd.RESTConfigFromKubeConfig(served.kubeconfig())
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	list, err := client.CoreV1().Secrets(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	assert.Equal(t, auth.SecretName, list.Items[0].Name)
	assert.Contains(t, string(list.Items[0].Data["private.pem"]), "BEGIN RSA PRIVATE KEY")
}

func TestRowsCanBeWritten(t *testing.T) {
	t.Parallel()
	b := &bench{settings: settings{authMode: "picod"}}
	row, err := b.row(7, "127.0.0.1:20000").Canonical()
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1:20000", row.EntryPoints[0].Endpoint)
	assert.Equal(t, sessionID(7), row.ID)
	assert.NotEqual(t, sessionID(7), sessionID(8))
}

func TestOptions(t *testing.T) {
	t.Parallel()
	s, err := parse([]string{"-only=sse,memory", "-sessions=1000,1"})
	require.NoError(t, err)
	assert.Equal(t, []string{"sse", "memory"}, s.only)
	assert.Equal(t, []int{1, 1000}, s.sessions, "from few to many")
	assert.Equal(t, []int{1, 16, 64, 256}, s.connections)
	for name, arg := range map[string]string{
		"an unknown part": "-only=throughput,other", "no number": "-connections=1,x", "no connection": "-connections=0",
	} {
		_, err := parse([]string{arg})
		require.Error(t, err, name)
	}
}

func TestWarmingAsksForEachSessionOnceAndWantsAnAnswer(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	fails := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("X-Agentcube-Session-Id")
		if fails {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	b, _ := printed()
	p := &party{name: "router 3", url: server.URL, sessions: 3, Process: logged(t)}
	require.NoError(t, b.warm(t.Context(), p))
	assert.ElementsMatch(t, []string{sessionID(0), sessionID(1), sessionID(2)}, []string{<-asked, <-asked, <-asked})
	assert.Empty(t, asked)
	fails = true
	require.ErrorContains(t, b.warm(t.Context(), p), "503")
}

// logged is a program that never runs, with a log.
func logged(t *testing.T) *process.Process {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(log, []byte("a record\n"), 0o600))
	return process.New(process.Spec{Name: "router", Log: log})
}
