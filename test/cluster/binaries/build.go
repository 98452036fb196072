package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/utils/clock"
)

// Builder builds binaries into a cache folder. It may be used from several
// goroutines and processes at once: each binary is built once.
type Builder struct {
	clock  clock.Clock
	source string
	cache  string
	log    io.Writer
}

// New returns a builder for the sources of this module. An empty cache folder
// means agentcube in the user's cache folder; progress goes to log, which may be
// nil.
func New(ctx context.Context, clk clock.Clock, cache string, log io.Writer) (*Builder, error) {
	source, err := findSource(ctx)
	if err != nil {
		return nil, err
	}
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("finding the cache folder: %w", err)
		}
		cache = filepath.Join(user, "agentcube")
	}
	if log == nil {
		log = io.Discard
	}
	return &Builder{clock: clk, source: source, cache: cache, log: log}, nil
}

// Path returns the executable, building it first where it is not in the cache.
// Building prints a line at its start and one at its end.
func (b *Builder) Path(ctx context.Context, bin Binary) (string, error) {
	dir, err := b.dir(bin)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", bin.Name, err)
	}
	path := filepath.Join(dir, bin.Name)
	if exists(path) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("building %s: %w", bin.Name, err)
	}
	unlock, err := b.lock(ctx, path+".lock", bin.Name)
	if err != nil {
		return "", fmt.Errorf("building %s: %w", bin.Name, err)
	}
	defer unlock()
	if exists(path) { // built by someone else meanwhile
		return path, nil
	}
	if err := b.build(ctx, bin, dir); err != nil {
		return "", fmt.Errorf("building %s: %w", bin.Name, err)
	}
	return path, nil
}

// CRDs returns the folder of the custom resource definitions that belong to a
// binary, building the binary first where it is not in the cache.
func (b *Builder) CRDs(ctx context.Context, bin Binary) (string, error) {
	path, err := b.Path(ctx, bin)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(path), "crds"), nil
}

// Kubectl returns the kubectl in PATH or, where there is none, one built from
// the Kubernetes module.
func (b *Builder) Kubectl(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path, nil
	}
	return b.Path(ctx, Kubectl)
}

// build puts everything under temporary names and the executable into its place
// last, so that whoever finds it finds it whole.
func (b *Builder) build(ctx context.Context, bin Binary, dir string) error {
	began := b.clock.Now()
	fmt.Fprintf(b.log, "building %s (%s the first time) …\n", bin.Name, bin.FirstTime)

	temp, err := os.MkdirTemp(dir, ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	module := filepath.Join(b.source, "modules", bin.Module)
	built := filepath.Join(temp, bin.Name)
	cmd := goCommand(ctx, module, "build", "-trimpath", "-ldflags=-s -w", "-o", built, bin.Package)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", module, err, out)
	}
	if bin.CRDs != "" {
		if err := copyCRDs(ctx, module, bin.CRDs, temp, dir); err != nil {
			return err
		}
	}
	if err := os.Rename(built, filepath.Join(dir, bin.Name)); err != nil {
		return err
	}
	fmt.Fprintf(b.log, "built %s in %s\n", bin.Name, b.clock.Since(began).Round(100*time.Millisecond))
	return nil
}

// copyCRDs keeps the definitions beside the binary: a later start then needs
// neither the go command nor the module cache.
func copyCRDs(ctx context.Context, module, goModule, temp, dir string) error {
	source, err := goList(ctx, module, "-m", "-f", "{{.Dir}}", goModule)
	if err != nil {
		return err
	}
	copied := filepath.Join(temp, "crds")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(source, "k8s", "crds"))); err != nil {
		return fmt.Errorf("copying the custom resource definitions: %w", err)
	}
	target := filepath.Join(dir, "crds")
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return os.Rename(copied, target)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
