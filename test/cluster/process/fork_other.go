//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// attributes put a child into a process group of its own, so that Ctrl-C at the
// terminal reaches this process alone and the stop order holds.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// startChild starts cmd. Only Linux can tie the life of a child to ours.
func startChild(cmd *exec.Cmd) error { return cmd.Start() }
