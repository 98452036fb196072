package node

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// deafen makes the kernel drop every segment that arrives for a socket, as if the
// machine behind the address were gone: a listener answers no SYN, a connection
// acknowledges nothing. Any user may attach a socket filter (socket(7)).
func deafen(socket syscall.Conn) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0} // keep 0 bytes
	program := unix.SockFprog{Len: 1, Filter: &drop}
	var attach error
	err = raw.Control(func(fd uintptr) {
		attach = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	})
	if err == nil {
		err = attach
	}
	if err != nil {
		return fmt.Errorf("attaching a filter that drops everything: %w", err)
	}
	return nil
}
