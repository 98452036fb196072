package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Ports are taken from below the range that Linux (32768 and up) and macOS
// (49152 and up) use for outgoing connections, so that a program which is down
// for a while finds its port free when it comes back.
const (
	firstPort = 20000
	lastPort  = 29999
	portTries = 200
)

// Port is a TCP port that no other cluster on this machine uses.
type Port struct {
	number int
	lock   *os.File
}

// ReservePort finds a free port and keeps other clusters from taking it until
// Release. The reservation is a file lock, because the program that is to listen
// needs the port itself; a foreign program can still take it, which shows as an
// [ExitError] with AddressInUse.
func ReservePort() (*Port, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("agentcube-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("reserving a port: %w", err)
	}
	for range portTries {
		number := firstPort + rand.IntN(lastPort-firstPort+1)
		lock, err := lockFile(filepath.Join(dir, strconv.Itoa(number)))
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reserving a port: %w", err)
		}
		if free(number) {
			return &Port{number: number, lock: lock}, nil
		}
		lock.Close()
	}
	return nil, fmt.Errorf("reserving a port: none of %d tried between %d and %d is free", portTries, firstPort, lastPort)
}

// Number returns the port number.
func (p *Port) Number() int { return p.number }

// String returns the port number as text.
func (p *Port) String() string { return strconv.Itoa(p.number) }

// Address returns the port on 127.0.0.1, as host:port.
func (p *Port) Address() string { return net.JoinHostPort("127.0.0.1", p.String()) }

// Release gives the port back. The file stays, since removing it would let two
// owners lock two files of one name. To close it would not end the lock at once:
// a process that is being started has the file too, until it runs its program.
func (p *Port) Release() {
	_ = syscall.Flock(int(p.lock.Fd()), syscall.LOCK_UN) // closing it ends the lock as well, if later
	_ = p.lock.Close()
}

func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// free listens on all addresses for a moment: a program that wants to listen on
// all of them is in the way of one that wants a single one, and the reverse. No
// process may be started meanwhile: it would have the port until it runs its
// program.
func free(port int) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
