package process

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// attributes put a child into a process group of its own, so that Ctrl-C at the
// terminal reaches this process alone and the stop order holds, and make the
// kernel kill it when this process ends in whatever way.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

var (
	forkOnce sync.Once
	forks    chan func()
)

// startChild starts cmd from a thread that lives as long as this process: the
// parent-death signal is sent when the thread that forked ends, and the Go
// runtime may end any thread that no goroutine holds (prctl(2),
// golang.org/issue/27505).
func startChild(cmd *exec.Cmd) error {
	forkOnce.Do(func() {
		forks = make(chan func())
		go func() {
			runtime.LockOSThread()
			for fork := range forks {
				fork()
			}
		}()
	})
	result := make(chan error)
	forks <- func() { result <- cmd.Start() }
	return <-result
}
