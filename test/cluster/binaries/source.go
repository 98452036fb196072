package binaries

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// mainModule is the module this package belongs to.
const mainModule = "github.com/agentcube/agentcube"

// findSource returns the folder test/cluster of the source tree: the one this
// package was compiled from or, where that is not known (-trimpath), the one of
// the module in the working folder.
func findSource(ctx context.Context) (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok {
		dir := filepath.Dir(filepath.Dir(file))
		if _, err := os.Stat(filepath.Join(dir, "modules")); err == nil {
			return dir, nil
		}
	}
	dir, err := goList(ctx, ".", "-m", "-f", "{{.Dir}}", mainModule)
	if err != nil {
		return "", fmt.Errorf("finding the source of the development cluster (run inside the repository): %w", err)
	}
	return filepath.Join(dir, "test", "cluster"), nil
}

func goList(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := goCommand(ctx, dir, append([]string{"list"}, args...)...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w: %s", strings.Join(args, " "), err, complaint.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// goCommand runs the go command in the module of dir, whatever workspace is set.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return cmd
}
