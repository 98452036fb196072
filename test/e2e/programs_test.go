package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/test/cluster/process"
	"github.com/agentcube/agentcube/test/system"
)

// program is one more process of ours, beside those of the system.
type program struct {
	*process.Process
	// url has no slash at its end.
	url string
}

// launch says how to run one.
type launch struct {
	name      string // workload-manager or router
	args, env []string
	// tls: it serves TLS; the configuration is that of a client it accepts.
	tls *tls.Config
	// path is asked until it answers 200; /readyz if empty.
	path string
}

// start runs a program until the end of the test. It has the rights and the
// store of its fellow in the system, unless its environment says otherwise.
func (e *env) start(t *testing.T, l launch) *program {
	t.Helper()
	port, err := process.ReservePort()
	require.NoError(t, err)
	t.Cleanup(port.Release)
	scheme := "http"
	if l.tls != nil {
		scheme = "https"
	}
	p := &program{url: scheme + "://" + port.Address()}
	path := l.path
	if path == "" {
		path = "/readyz"
	}
	if l.name == "router" {
		l.env = append([]string{"WORKLOAD_MANAGER_URL=" + e.Manager().URL}, l.env...)
	}
	p.Process = process.New(process.Spec{
		Name: l.name + " of " + t.Name(),
		Path: e.binary(l.name),
		Args: append([]string{"--port=" + strconv.Itoa(port.Number())}, l.args...),
		Env: append([]string{
			"KUBECONFIG=" + filepath.Join(e.Cluster.Dir, "kubeconfigs", system.Namespace+"-"+l.name+".kubeconfig"),
			"AGENTCUBE_NAMESPACE=" + system.Namespace,
			"AGENTCUBE_DRAIN_DELAY=0s",
			"AGENTCUBE_ALLOW_LOOPBACK_ENDPOINTS=true", // where the pods of the development cluster are
			"REDIS_ADDR=" + e.Redis.Addr,
			"REDIS_PASSWORD=" + e.StorePassword(),
		}, l.env...),
		Log:   filepath.Join(t.TempDir(), l.name+".log"),
		Ready: answers(p.url+path, l.tls),
	})
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() {
		if t.Failed() {
			output, err := p.Output()
			t.Logf("%s %v: %v\n%s", l.name, l.args, err, output)
		}
		assert.NoError(t, p.Stop())
		output, err := p.Output()
		assert.NoError(t, err)
		assert.NotContains(t, string(output), "WARNING: DATA RACE")
	})
	return p
}

// binary is the path of one of our programs.
func (e *env) binary(name string) string { return filepath.Join(e.Cluster.Dir, "bin", name) }

// answers is a readiness check: a 200.
func answers(url string, config *tls.Config) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}

// at is a URL of the system's router, at another one.
func (e *env) at(p *program, url string) string { return strings.Replace(url, e.Router.URL, p.url, 1) }
