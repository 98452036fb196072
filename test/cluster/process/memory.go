package process

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Resident returns the memory that the program holds at present, in bytes. It
// reads /proc and so works on Linux only.
func (p *Process) Resident() (int64, error) {
	pid := p.PID()
	if pid == 0 {
		return 0, fmt.Errorf("measuring %s: %w", p.spec.Name, ErrNotRunning)
	}
	return Resident(pid)
}

// Peak returns the most memory that the program has held since its start, in
// bytes. It reads /proc and so works on Linux only.
func (p *Process) Peak() (int64, error) {
	pid := p.PID()
	if pid == 0 {
		return 0, fmt.Errorf("measuring %s: %w", p.spec.Name, ErrNotRunning)
	}
	return memory(pid, "VmHWM:")
}

// Resident returns the memory that a process holds at present, in bytes. It
// reads /proc and so works on Linux only.
func Resident(pid int) (int64, error) { return memory(pid, "VmRSS:") }

// memory reads a line of proc_pid_status(5).
func memory(pid int, line string) (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		value, found := strings.CutPrefix(lines.Text(), line)
		if !found {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading %s of %d: %w", line, pid, err)
		}
		return kilobytes << 10, nil
	}
	return 0, fmt.Errorf("reading %s of %d: no such line", line, pid)
}
