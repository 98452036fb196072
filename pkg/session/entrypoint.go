package session

import (
	"net"
	"strconv"
)

// Protocols of an entry point.
const (
	ProtocolHTTP  = "HTTP"
	ProtocolHTTPS = "HTTPS"
)

// EntryPoints gives every port the address. Without an address there is no
// way in, and the result is nil.
func EntryPoints(ports []Port, address string) []EntryPoint {
	if address == "" || len(ports) == 0 {
		return nil
	}
	points := make([]EntryPoint, len(ports))
	for i, p := range ports {
		points[i] = EntryPoint{
			Path:     p.Path,
			Protocol: p.Protocol,
			Endpoint: net.JoinHostPort(address, strconv.Itoa(int(p.Port))),
		}
	}
	return points
}

// ports are the recorded ones, or, in a row of an installation that does not
// record them, those its entry points end in.
func (s *Session) ports() []Port {
	if len(s.Ports) > 0 {
		return s.Ports
	}
	var ports []Port
	for _, e := range s.EntryPoints {
		_, text, err := net.SplitHostPort(e.Endpoint)
		if err != nil {
			continue
		}
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			continue
		}
		ports = append(ports, Port{Path: e.Path, Protocol: e.Protocol, Port: int32(number)})
	}
	return ports
}
