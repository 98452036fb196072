package process

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// tailBytes is how much of a log goes into an error.
const tailBytes = 2 << 10

// ExitError says that a program ended while it was expected to become ready.
type ExitError struct {
	Name string
	// Err is how it ended, as [exec.Cmd.Wait] says; nil for status 0.
	Err error
	// Log is the path of its log, Tail the end of it.
	Log, Tail string
}

func (e *ExitError) Error() string {
	how := "status 0"
	if e.Err != nil {
		how = e.Err.Error()
	}
	return fmt.Sprintf("%s ended before it was ready (%s); end of %s:\n%s", e.Name, how, e.Log, e.Tail)
}

func (e *ExitError) Unwrap() error { return e.Err }

// AddressInUse tells whether the program ended because a port it was given had
// been taken by another program in the meantime.
func (e *ExitError) AddressInUse() bool {
	return strings.Contains(strings.ToLower(e.Tail), "address already in use")
}

func (p *Process) exitError(r *run) error {
	return &ExitError{Name: p.spec.Name, Err: r.err, Log: p.spec.Log, Tail: tail(p.spec.Log, r.logOffset)}
}

// Output returns what the program has written in its present or last life. It is
// meant for readiness checks of programs that tell in no other way that they
// work.
func (p *Process) Output() ([]byte, error) {
	p.mu.Lock()
	r := p.current
	p.mu.Unlock()
	if r == nil {
		return nil, nil
	}
	f, err := os.Open(p.spec.Log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(r.logOffset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// tail returns the end of what was written to the log since offset.
func tail(path string, offset int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(offset, info.Size()-tailBytes), tailBytes))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}
