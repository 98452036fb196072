package process

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shell is a program that runs a script and logs to a file of its own.
func shell(t *testing.T, script string, ready func(context.Context) error) *Process {
	t.Helper()
	p := New(Spec{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script},
		Log: filepath.Join(t.TempDir(), "logs", "script.log"), Ready: ready, ReadyWithin: 20 * time.Second,
	})
	t.Cleanup(func() { assert.NoError(t, p.Kill()) })
	return p
}

// hasLogged is a readiness check that wants a text in the log.
func hasLogged(p **Process, text string) func(context.Context) error {
	return func(context.Context) error {
		output, err := (*p).Output()
		if err != nil {
			return err
		}
		if string(output) != text {
			return errors.New("nothing yet")
		}
		return nil
	}
}

func never(context.Context) error { return errors.New("never ready") }

func isGone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestStartReturnsOnceTheProgramIsReady(t *testing.T) {
	t.Parallel()
	var p *Process
	p = shell(t, "echo up; exec sleep 600", hasLogged(&p, "up\n"))
	require.NoError(t, p.Start(t.Context()))
	pid := p.PID()
	require.NotZero(t, pid)

	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	assert.Equal(t, pid, group, "a group of its own, which Ctrl-C does not reach")
	require.ErrorContains(t, p.Start(t.Context()), "already running")

	require.NoError(t, p.Stop())
	assert.True(t, isGone(pid))
	assert.Zero(t, p.PID())
	require.NoError(t, p.Stop(), "stopping twice")

	// The output of the first life does not count in the second.
	require.NoError(t, p.Start(t.Context()))
	assert.NotEqual(t, pid, p.PID())
}

func TestAProgramThatEndsDuringTheWaitIsAnErrorWithTheEndOfItsLog(t *testing.T) {
	t.Parallel()
	p := shell(t, "echo listen tcp: bind: Address already in use; exit 3", never)
	err := p.Start(t.Context())
	var exit *ExitError
	require.ErrorAs(t, err, &exit)
	assert.True(t, exit.AddressInUse())
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "bind: Address already in use")
}

func TestAProgramThatIsGoneIsNotReadyWhoeverAnswers(t *testing.T) {
	t.Parallel()
	var p *Process
	p = shell(t, "exit 0", func(context.Context) error {
		p.mu.Lock()
		done := p.current.done
		p.mu.Unlock()
		<-done
		return nil // as another program on the same port would have it
	})
	var exit *ExitError
	require.ErrorAs(t, p.Start(t.Context()), &exit)
	assert.False(t, exit.AddressInUse())
}

func TestOnlyThePresentLifeIsJudgedByItsLog(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "mark")
	p := shell(t, "[ -e "+mark+" ] || { touch "+mark+"; echo address already in use; exit 1; }; echo other; exit 1", never)
	var first, second *ExitError
	require.ErrorAs(t, p.Start(t.Context()), &first)
	require.ErrorAs(t, p.Start(t.Context()), &second)
	assert.True(t, first.AddressInUse())
	assert.Equal(t, "other", second.Tail)
	assert.False(t, second.AddressInUse())
}

func TestStartGivesUpWithItsContextAndLeavesNoProgram(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var p *Process
	pid := 0
	p = shell(t, "exec sleep 600", func(context.Context) error {
		pid = p.PID()
		cancel()
		return errors.New("not yet")
	})
	require.ErrorIs(t, p.Start(ctx), context.Canceled)
	require.NotZero(t, pid)
	assert.True(t, isGone(pid))
}

func TestAProgramThatIgnoresTheSignalIsKilled(t *testing.T) {
	t.Parallel()
	var p *Process
	p = shell(t, "trap '' TERM; echo up; while :; do sleep 600; done", hasLogged(&p, "up\n"))
	p.spec.StopWithin = 50 * time.Millisecond
	require.NoError(t, p.Start(t.Context()))
	pid := p.PID()
	require.NoError(t, p.Stop())
	assert.True(t, isGone(pid))
}

func TestAFrozenProgramEndsInAnOrderlyWay(t *testing.T) {
	t.Parallel()
	var p *Process
	p = shell(t, "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done", hasLogged(&p, "up\n"))
	p.spec.StopWithin = 20 * time.Second
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, p.Pause())
	require.NoError(t, p.Stop())
	log, err := os.ReadFile(p.Log())
	require.NoError(t, err)
	assert.Equal(t, "up\nbye\n", string(log))
}

func TestPauseFreezesAndResumeGoesOn(t *testing.T) {
	t.Parallel()
	p := shell(t, "exec sleep 600", nil)
	require.ErrorIs(t, p.Pause(), ErrNotRunning)
	require.ErrorIs(t, p.Resume(), ErrNotRunning)
	require.NoError(t, p.Start(t.Context()))

	var status syscall.WaitStatus
	require.NoError(t, p.Pause())
	_, err := syscall.Wait4(p.PID(), &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	assert.True(t, status.Stopped())

	require.NoError(t, p.Resume())
	_, err = syscall.Wait4(p.PID(), &status, syscall.WCONTINUED, nil)
	require.NoError(t, err)
	assert.True(t, status.Continued())
}

func TestAReservedPortIsFreeAndNobodyElses(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 50 {
		port, err := ReservePort()
		require.NoError(t, err)
		t.Cleanup(port.Release)
		require.False(t, seen[port.Number()], "reserved twice: %s", port)
		seen[port.Number()] = true
		l, err := net.Listen("tcp", port.Address())
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

func TestAReservationKeepsOthersOutUntilItIsReleased(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), strconv.Itoa(firstPort))
	lock, err := lockFile(path)
	require.NoError(t, err)
	_, err = lockFile(path)
	require.ErrorIs(t, err, syscall.EWOULDBLOCK)
	port := &Port{number: firstPort, lock: lock}
	port.Release()
	again, err := lockFile(path)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestAPortIsNotFreeWhenAnAddressOfTheMachineHasIt(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	assert.False(t, free(port))
	require.NoError(t, l.Close())
}
