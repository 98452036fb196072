package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/agentcube/agentcube/test/bench/lifecycle/fleet"
	"github.com/agentcube/agentcube/test/cluster/pki"
	"github.com/agentcube/agentcube/test/cluster/process"
)

const (
	collectInterval = 2 * time.Second
	// readyWithin bounds the start of each program.
	readyWithin = 5 * time.Minute
)

// apiServer is the API server and how to reach it.
type apiServer struct {
	*process.Process
	kubeconfig string
}

// manager is the workload-manager and where it listens.
type manager struct {
	*process.Process
	url string
}

// startAPIServer returns once the objects of the fleet are served.
func (b *bench) startAPIServer(ctx context.Context, folder string, f fleet.Fleet) (*apiServer, error) {
	port, err := process.ReservePort()
	if err != nil {
		return nil, err
	}
	defer port.Release()
	pair, err := pki.SelfSigned("127.0.0.1")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	if err := pair.Write(b.dir, "apiserver"); err != nil {
		return nil, err
	}
	certificate := filepath.Join(b.dir, "apiserver.crt")
	s := &apiServer{kubeconfig: filepath.Join(b.dir, "kubeconfig"), Process: process.New(process.Spec{
		Name: "apiserver", Path: b.programs.apiserver, Log: filepath.Join(folder, "apiserver.log"), ReadyWithin: readyWithin,
		Args: []string{
			"-addr=" + port.Address(), "-cert=" + certificate, "-key=" + filepath.Join(b.dir, "apiserver.key"),
			"-sessions=" + strconv.Itoa(f.Size), "-created=" + f.Created.Format(time.RFC3339),
			"-installation=" + f.Installation, fmt.Sprintf("-watch-list=%t", b.watchList),
		},
		Ready: answers(trusting(pair.Cert), "https://"+port.Address()+"/readyz"),
	})}
	if err := os.WriteFile(s.kubeconfig, kubeconfig("https://"+port.Address(), pair.Cert), 0o600); err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// startManager returns once its caches are synced.
func (b *bench) startManager(ctx context.Context, folder string, server *apiServer) (*manager, error) {
	port, err := process.ReservePort()
	if err != nil {
		return nil, err
	}
	defer port.Release()
	m := &manager{url: "http://" + port.Address()}
	m.Process = process.New(process.Spec{
		Name: "workload-manager", Path: b.programs.manager, Log: filepath.Join(folder, "workload-manager.log"),
		Args: []string{
			"--port=" + port.String(), "--kubeconfig=" + server.kubeconfig, "--drain-delay=0s",
			"--collect-interval=" + collectInterval.String(), "--log-format=json",
		},
		Env:         []string{"REDIS_ADDR=" + b.redis.Addr, "REDIS_PASSWORD_REQUIRED=false"},
		ReadyWithin: readyWithin,
		Ready:       m.followsCluster,
	})
	if err := m.Start(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

// followsCluster: the detail is ok from the moment that the first lists of the
// objects have reached the caches.
func (m *manager) followsCluster(ctx context.Context) error {
	response, err := fetch(ctx, http.DefaultClient, m.url+"/readyz")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var body struct {
		Details map[string]string `json:"details"`
	}
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		return err
	}
	if body.Details["cluster"] != "ok" {
		return errors.New(body.Details["cluster"])
	}
	return nil
}

func trusting(certificate []byte) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}}
}

func answers(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		response, err := fetch(ctx, client, url)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
}

// fetch is a GET that wants 200. The caller closes the body.
func fetch(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close() // the status is what matters
		return nil, fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return response, nil
}

func kubeconfig(url string, certificate []byte) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: bench, cluster: {server: %q, certificate-authority-data: %q}}]
users: [{name: bench, user: {token: bench}}]
contexts: [{name: bench, context: {cluster: bench, user: bench}}]
current-context: bench
`, url, base64.StdEncoding.EncodeToString(certificate))
}
