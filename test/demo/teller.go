package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/system"
)

//go:embed templates.yaml
var templates []byte

// teller runs the steps and says what was sent, what came back, and how long
// it took.
type teller struct {
	system *system.System
	out    io.Writer
	step   int
}

func (t *teller) begin(what string) {
	t.step++
	fmt.Fprintf(t.out, "\n%d. %s\n", t.step, what)
}

// kubectl runs the real one against the cluster.
func (t *teller) kubectl(ctx context.Context, stdin []byte, args ...string) error {
	path, err := t.system.Cluster.Kubectl(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "   $ kubectl %s\n", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+t.system.Cluster.Kubeconfig)
	cmd.Stdin = bytes.NewReader(stdin)
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	t.print(string(out))
	if err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	fmt.Fprintf(t.out, "   (%s)\n", rounded(time.Since(begun)))
	return nil
}

// answer of a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// request sends one and shows both sides.
func (t *teller) request(ctx context.Context, method, url, session, body string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	fmt.Fprintf(t.out, "   > %s %s\n", method, url)
	if session != "" {
		request.Header.Set(api.HeaderSessionID, session)
		fmt.Fprintf(t.out, "   > %s: %s\n", api.HeaderSessionID, session)
	}
	if body != "" {
		fmt.Fprintf(t.out, "   > %s\n", body)
	}
	begun := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	fmt.Fprintf(t.out, "   < %s (%s)\n", response.Status, rounded(time.Since(begun)))
	t.print(string(received))
	return answer{status: response.StatusCode, header: response.Header, body: received}, nil
}

// token matches what would fill the screen; its start tells enough.
var token = regexp.MustCompile(`(Bearer [\w-]{12})[\w.-]+`)

func (t *teller) print(text string) {
	text = token.ReplaceAllString(text, "$1…")
	for line := range strings.Lines(strings.TrimSpace(text)) {
		fmt.Fprintf(t.out, "   < %s\n", strings.TrimRight(line, "\n"))
	}
}

func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// expect decodes an answer whose status is as it should be.
func (a answer) expect(status int, into any) error {
	if a.status != status {
		return fmt.Errorf("status is %d, want %d", a.status, status)
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	return nil
}
