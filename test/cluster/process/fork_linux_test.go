package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// parentVariable turns the test binary into a program that starts a child, says
// its process id and waits to be killed.
const parentVariable = "PROCESS_TEST_PARENT"

func TestMain(m *testing.M) {
	dir := os.Getenv(parentVariable) //nolint:forbidigo // it tells this program from the tests
	if dir != "" {
		p := New(Spec{Name: "child", Path: "/bin/sleep", Args: []string{"600"}, Log: filepath.Join(dir, "log")})
		if err := p.launchForTest(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.PID())
		select {}
	}
	os.Exit(m.Run())
}

func (p *Process) launchForTest() error {
	_, err := p.launch()
	return err
}

func TestNoProgramOutlivesUsWhenWeAreKilled(t *testing.T) {
	t.Parallel()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err, line)
	// A handle that becomes readable when the child ends, whoever reaps it.
	handle, err := unix.PidfdOpen(child, 0)
	require.NoError(t, err)
	defer unix.Close(handle)

	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait() // it was killed

	ready, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, 20_000)
	require.NoError(t, err)
	assert.Equal(t, 1, ready, "the child still runs")
}

func TestResidentMemoryIsThatOfTheProcess(t *testing.T) {
	t.Parallel()
	bytes, err := Resident(os.Getpid())
	require.NoError(t, err)
	assert.Greater(t, bytes, int64(1<<20))
	p := shell(t, "exec sleep 600", nil)
	_, err = p.Resident()
	require.ErrorIs(t, err, ErrNotRunning)
	require.NoError(t, p.Start(t.Context()))
	bytes, err = p.Resident()
	require.NoError(t, err)
	assert.Positive(t, bytes)
}
