package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentcube/agentcube/pkg/api"
)

// timeDeletions measures from the API server's answer to a deletion until the
// router answers 404 SESSION_NOT_FOUND. Requests follow one another at once, so
// what is measured is up to one request too long.
func (b *bench) timeDeletions(ctx context.Context) error {
	var took []time.Duration
	for range b.deletions {
		created, err := b.post(ctx, "/v1/agent-runtime")
		if err != nil {
			return err
		}
		if status, code, err := b.invoke(ctx, created.SessionID); err != nil || status != http.StatusOK {
			return fmt.Errorf("the new session answers %d %s: %w", status, code, err)
		}
		err = b.client.Resource(b.api.Sandboxes()).Namespace(namespace).Delete(ctx, created.SandboxName, metav1.DeleteOptions{})
		if err != nil {
			return err
		}
		answered := time.Now()
		for {
			_, code, err := b.invoke(ctx, created.SessionID)
			if err != nil {
				return err
			}
			if code == api.CodeSessionNotFound {
				break
			}
		}
		took = append(took, time.Since(answered))
	}
	fmt.Printf("\n## Deletion in the cluster until 404 through the router (%d)\n\np50 %.1f ms, slowest %.1f ms   (bound: 100 ms)\n",
		len(took), ms(percentile(took, 50)), ms(percentile(took, 100)))
	return nil
}

// invoke sends a request through the router.
func (b *bench) invoke(ctx context.Context, id string) (status int, code string, err error) {
	url := fmt.Sprintf("%s/v1/namespaces/%s/agent-runtimes/%s/invocations/", b.system.Router.URL, namespace, workload)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set(api.HeaderSessionID, id)
	response, err := b.http.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", err
	}
	var told api.RouterError
	if response.StatusCode != http.StatusOK {
		if err := json.Unmarshal(body, &told); err != nil {
			return response.StatusCode, "", fmt.Errorf("%s: %s", response.Status, body)
		}
	}
	return response.StatusCode, told.Code, nil
}
