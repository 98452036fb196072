// Package process runs the programs of the development cluster as children:
// it starts them, finds out when they are ready, stops, kills and freezes them
// by process id, and reserves the ports they listen on.
//
// It knows nothing of what the programs do; arguments and readiness probes come
// from the caller.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// probeInterval is how often a starting program is asked whether it is ready.
	probeInterval = 20 * time.Millisecond
	// defaultReadyWithin bounds the wait for readiness.
	defaultReadyWithin = 60 * time.Second
	// defaultStopWithin is how long a program may take to end after SIGTERM.
	defaultStopWithin = 10 * time.Second
)

// ErrNotRunning is returned by the methods that need a running program.
var ErrNotRunning = errors.New("not running")

// Spec says how to run a program.
type Spec struct {
	// Name is used in messages.
	Name string
	// Path and Args are the program and its arguments.
	Path string
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// Log is the file that takes standard output and standard error. Every start
	// appends to it.
	Log string
	// Ready answers nil once the program serves. It is asked again and again
	// until then. Nil means ready as soon as started.
	Ready func(context.Context) error
	// ReadyWithin bounds the wait for Ready; 60 s by default.
	ReadyWithin time.Duration
	// StopWithin is how long the program may take to end after SIGTERM before it
	// is killed; 10 s by default.
	StopWithin time.Duration
}

// Process is one program that can be started and stopped any number of times,
// always with the same arguments and so on the same ports. Its methods may be
// called from any goroutine.
type Process struct {
	spec Spec

	mu      sync.Mutex // guards current and env
	current *run
	env     []string // of the next start
}

// run is one life of the program.
type run struct {
	cmd       *exec.Cmd
	done      chan struct{} // closed once the program is gone
	err       error         // how it ended; read it after done
	logOffset int64         // where this life begins in the log
}

// New returns a program that has not been started.
func New(spec Spec) *Process {
	if spec.ReadyWithin == 0 {
		spec.ReadyWithin = defaultReadyWithin
	}
	if spec.StopWithin == 0 {
		spec.StopWithin = defaultStopWithin
	}
	return &Process{spec: spec}
}

// SetEnv says what the next starts add to the environment besides Spec.Env, in
// place of what an earlier call said.
func (p *Process) SetEnv(env ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.env = env
}

// Name returns the name that messages use.
func (p *Process) Name() string { return p.spec.Name }

// Log returns the path of the file that takes the program's output.
func (p *Process) Log() string { return p.spec.Log }

// PID returns the process id, or 0 when the program does not run.
func (p *Process) PID() int {
	r := p.running()
	if r == nil {
		return 0
	}
	return r.cmd.Process.Pid
}

// Start runs the program and returns once it is ready. A program that ends
// during the wait is reported at once as an [*ExitError]; one that is not ready
// in time is killed. Starting a program that runs is an error.
func (p *Process) Start(ctx context.Context) error {
	r, err := p.launch()
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.spec.Name, err)
	}
	if err := p.waitReady(ctx, r); err != nil {
		kill(r)
		return fmt.Errorf("starting %s: %w", p.spec.Name, err)
	}
	return nil
}

func (p *Process) launch() (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil && !ended(p.current) {
		return nil, errors.New("already running")
	}
	if err := os.MkdirAll(filepath.Dir(p.spec.Log), 0o755); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(p.spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own copy
	info, err := out.Stat()
	if err != nil {
		return nil, err
	}

	cmd := exec.Command(p.spec.Path, p.spec.Args...) //nolint:noctx // it lives until it is stopped
	cmd.Env = slices.Concat(os.Environ(), p.spec.Env, p.env)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes()
	if err := startChild(cmd); err != nil {
		return nil, err
	}
	r := &run{cmd: cmd, done: make(chan struct{}), logOffset: info.Size()}
	go func() {
		r.err = cmd.Wait()
		close(r.done)
	}()
	p.current = r
	return r, nil
}

func (p *Process) waitReady(ctx context.Context, r *run) error {
	if p.spec.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.spec.ReadyWithin)
	defer cancel()
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		err := p.spec.Ready(ctx)
		// The answer may have come from another program on the same port, so a
		// program that is gone is never ready.
		if ended(r) {
			return p.exitError(r)
		}
		if err == nil {
			return nil
		}
		select {
		case <-r.done:
			return p.exitError(r)
		case <-ctx.Done():
			return fmt.Errorf("not ready within %s: %w: last answer: %w; end of %s:\n%s",
				p.spec.ReadyWithin, context.Cause(ctx), err, p.spec.Log, tail(p.spec.Log, r.logOffset))
		case <-tick.C:
		}
	}
}

// Stop asks the program to end, kills it if it does not do so in time, and
// returns once it is gone. Stopping a program that does not run is no error.
func (p *Process) Stop() error {
	r := p.running()
	if r == nil {
		return nil
	}
	if err := signal(r, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping %s: %w", p.spec.Name, err)
	}
	// A frozen program cannot act on the signal.
	if err := signal(r, syscall.SIGCONT); err != nil {
		return fmt.Errorf("stopping %s: %w", p.spec.Name, err)
	}
	timer := time.NewTimer(p.spec.StopWithin)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		kill(r)
	}
	return nil
}

// Kill ends the program as kill -9 does and returns once it is gone. Killing a
// program that does not run is no error.
func (p *Process) Kill() error {
	if r := p.running(); r != nil {
		kill(r)
	}
	return nil
}

// Pause freezes the program (SIGSTOP): its connections stay open and nothing
// answers. It returns [ErrNotRunning] when there is nothing to freeze.
func (p *Process) Pause() error { return p.signalRunning(syscall.SIGSTOP) }

// Resume lets a frozen program go on (SIGCONT). It returns [ErrNotRunning] when
// there is no program.
func (p *Process) Resume() error { return p.signalRunning(syscall.SIGCONT) }

func (p *Process) signalRunning(sig syscall.Signal) error {
	r := p.running()
	if r == nil {
		return fmt.Errorf("sending %s to %s: %w", sig, p.spec.Name, ErrNotRunning)
	}
	return signal(r, sig)
}

func (p *Process) running() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil || ended(p.current) {
		return nil
	}
	return p.current
}

func ended(r *run) bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// kill returns once the program is gone: SIGKILL ends a frozen one too.
func kill(r *run) {
	// The only error is that the program is gone already.
	_ = r.cmd.Process.Kill()
	<-r.done
}

func signal(r *run, sig syscall.Signal) error {
	if err := r.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
