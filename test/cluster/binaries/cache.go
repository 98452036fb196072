package binaries

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// lockInterval is how often a builder that waits for another one looks again.
const lockInterval = 100 * time.Millisecond

// dir returns the cache folder of a binary: one per module, keyed by all that
// decides what is built.
func (b *Builder) dir(bin Binary) (string, error) {
	key, err := cacheKey(filepath.Join(b.source, "modules", bin.Module), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return "", err
	}
	return filepath.Join(b.cache, bin.Module+"-"+key), nil
}

// cacheKey hashes the go.mod and go.sum of a module with the toolchain's version
// and the platform.
func cacheKey(module string, toolchain ...string) (string, error) {
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%d\n%s", len(text), text)
	}
	for _, part := range toolchain {
		fmt.Fprintf(hash, "%d\n%s", len(part), part)
	}
	return fmt.Sprintf("%x", hash.Sum(nil)[:8]), nil
}

// lock takes a file lock that other processes see too, waiting for whoever holds
// it. The file stays: removing it would let two builders lock two files of one
// name.
func (b *Builder) lock(ctx context.Context, path, name string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	told := false
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !told {
			fmt.Fprintf(b.log, "waiting for another process that builds %s …\n", name)
			told = true
		}
		select {
		case <-b.clock.After(lockInterval):
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}
