package system

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/agentcube/agentcube/test/cluster/process"
)

// Program is one of ours, as a process.
type Program struct {
	*process.Process
	// URL has no slash at its end.
	URL string
}

// buildPrograms builds all as they stand in the source tree.
func buildPrograms(ctx context.Context, root, dir string, tags []string, log io.Writer) (string, error) {
	begun := time.Now()
	bin := filepath.Join(dir, "bin") + string(filepath.Separator)
	args := []string{"build", "-trimpath", "-tags=" + strings.Join(tags, ","), "-o", bin}
	if raceDetector {
		args = append(args, "-race")
	}
	build := exec.CommandContext(ctx, "go", append(args, "./cmd/...")...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	say(log, "the programs are built (%s)", time.Since(begun).Round(time.Millisecond))
	return bin, nil
}

func (s *System) newManager(ctx context.Context, bin string, index int, args, env []string) (*Program, error) {
	return s.newProgram(ctx, "workload-manager", fmt.Sprintf("workload-manager-%d", index), bin, args, env,
		"store", "cluster", "identity-key")
}

func (s *System) newRouter(ctx context.Context, bin string, args []string) (*Program, error) {
	env := []string{"WORKLOAD_MANAGER_URL=" + s.Managers[0].URL}
	args = append([]string{"--allow-loopback-endpoints"}, args...)
	return s.newProgram(ctx, "router", "router", bin, args, env, "store")
}

func (s *System) newProgram(ctx context.Context, program, name, bin string, args, env []string, details ...string) (*Program, error) {
	kubeconfig, err := s.Cluster.ServiceAccountKubeconfig(ctx, Namespace, program)
	if err != nil {
		return nil, fmt.Errorf("getting the credentials of %s: %w", program, err)
	}
	kubeconfig, store, err := s.between(name, kubeconfig)
	if err != nil {
		return nil, err
	}
	port, err := process.ReservePort()
	if err != nil {
		return nil, err
	}
	s.ports = append(s.ports, port)
	base := "http://" + port.Address()
	env = append(slices.Clone(env),
		"AGENTCUBE_NAMESPACE="+Namespace,
		"REDIS_ADDR="+store,
		"REDIS_PASSWORD="+password,
	)
	args = append([]string{
		"--port=" + strconv.Itoa(port.Number()), "--kubeconfig=" + kubeconfig, "--drain-delay=0s",
	}, args...)
	return &Program{URL: base, Process: process.New(process.Spec{
		Name: name, Path: filepath.Join(bin, program), Args: args, Env: env,
		Log:   filepath.Join(s.Cluster.Dir, "logs", name+".log"),
		Ready: readyWith(base+"/readyz", details),
	})}, nil
}

// between puts what Options.Via names between a program and what it depends on:
// it returns a kubeconfig of the program's own, and the address of the store.
func (s *System) between(program, kubeconfig string) (own, store string, err error) {
	if s.via == nil {
		return kubeconfig, s.Redis.Addr, nil
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return "", "", err
	}
	for _, c := range config.Clusters {
		server, err := url.Parse(c.Server)
		if err != nil {
			return "", "", err
		}
		if server.Host, err = s.via(program, APIServer, server.Host); err != nil {
			return "", "", err
		}
		c.Server = server.String()
	}
	own = filepath.Join(filepath.Dir(kubeconfig), program+"-via.kubeconfig")
	if err := clientcmd.WriteToFile(*config, own); err != nil {
		return "", "", err
	}
	store, err = s.via(program, Store, s.Redis.Addr)
	return own, store, err
}

// readyWith wants the program ready and each of the details ok, so that the
// first request of a test does not meet a 503 of the start.
func readyWith(url string, details []string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		var body struct {
			Status  string            `json:"status"`
			Details map[string]string `json:"details"`
		}
		if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, body.Status)
		}
		for _, d := range details {
			if body.Details[d] != "ok" {
				return fmt.Errorf("%s: %s: %q", url, d, body.Details[d])
			}
		}
		return nil
	}
}
