package node

import (
	"context"
	"net"
)

// listenTCP listens with plain TCP: Go's default is Multipath TCP, whose sockets
// take no filters.
func listenTCP(address string) (*net.TCPListener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	l, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}
