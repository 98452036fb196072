package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Bounds, in bytes.
const (
	liveBound     = 150e6
	residentBound = 250e6
)

const (
	// manifest has the router's Deployment as its first document.
	manifest    = "manifests/base/router.yaml"
	memoryLimit = "GOMEMLIMIT"
	// memoryConnections load the router while its memory is watched.
	memoryConnections = 64
)

// memory measures a router that knows all sessions, with the memory limit that
// the manifests set.
func (b *bench) memory(ctx context.Context) error {
	limit, err := shippedLimit(manifest)
	if err != nil {
		return err
	}
	most := b.sessions[len(b.sessions)-1]
	// The collector's own trace is where the live heap is told.
	router, err := b.newRouter(fmt.Sprintf("router %d with a limit", most), most, memoryLimit+"="+limit, "GODEBUG=gctrace=1")
	if err != nil {
		return err
	}
	if err := router.Start(ctx); err != nil {
		return err
	}
	err = b.weigh(ctx, router, limit)
	return errors.Join(err, router.Stop())
}

func (b *bench) weigh(ctx context.Context, router *party, limit string) error {
	if err := b.warm(ctx, router); err != nil {
		return err
	}
	cached, err := router.Resident()
	if err != nil {
		return err
	}
	// Under load the garbage is collected, after which the trace tells what is
	// live. The log is read before it is emptied.
	live, err := b.liveUnderLoad(ctx, router)
	if err != nil {
		return err
	}
	resident, err := router.Resident()
	if err != nil {
		return err
	}
	peak, err := router.Peak()
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "\n## Memory with %d sessions, each asked for once; %s=%s\n\n", router.sessions, memoryLimit, limit)
	line := func(what string, bytes int64, bound float64) {
		fmt.Fprintf(b.out, "%-44s %8.0f MB   (bound: %.0f MB)\n", what, float64(bytes)/1e6, bound/1e6)
	}
	line("live heap after a collection", live, liveBound)
	line("resident, all sessions seen", cached, residentBound)
	line("resident, after a load drawn from all", resident, residentBound)
	line("  most since the start", peak, residentBound)
	return nil
}

// liveUnderLoad is what the last collection during a load has left.
func (b *bench) liveUnderLoad(ctx context.Context, router *party) (int64, error) {
	loaded := make(chan error, 1)
	watched, stop := context.WithCancel(ctx)
	defer stop()
	b.seed++
	go func() {
		_, err := b.load(ctx, router, request{what: "small"}, memoryConnections)
		loaded <- err
	}()
	var live int64
	for {
		text, err := os.ReadFile(router.Log())
		if err != nil {
			return 0, err
		}
		if seen, ok := liveHeap(text); ok {
			live = seen
		}
		select {
		case err := <-loaded:
			if err == nil && live == 0 {
				err = errors.New("nothing was collected during the load; a longer -duration helps")
			}
			return live, err
		case <-watched.Done():
			return 0, context.Cause(watched)
		case <-time.After(lookInterval):
		}
	}
}

// collection is a line of GODEBUG=gctrace=1: the heap at the start of the
// collection, at its end, and what of it is live (package runtime). Records of
// requests, each a whole line, may come between its parts; it then is no match.
var collection = regexp.MustCompile(`(?m)^gc \d+ @.* (\d+)->(\d+)->(\d+) MB, `)

// liveHeap is what the last collection left, in bytes.
func liveHeap(log []byte) (int64, bool) {
	all := collection.FindAllSubmatch(log, -1)
	if len(all) == 0 {
		return 0, false
	}
	mebibytes, err := strconv.ParseInt(string(all[len(all)-1][3]), 10, 64)
	return mebibytes << 20, err == nil
}

// shippedLimit is the memory limit of the first container.
func shippedLimit(path string) (string, error) {
	file, err := os.Open(filepath.FromSlash(path))
	if err != nil {
		return "", err
	}
	defer file.Close()
	var deployment appsv1.Deployment
	if err := yaml.NewYAMLOrJSONDecoder(file, 4096).Decode(&deployment); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, variable := range container.Env {
			if variable.Name == memoryLimit {
				return variable.Value, nil
			}
		}
	}
	return "", fmt.Errorf("%s sets no %s", path, memoryLimit)
}
