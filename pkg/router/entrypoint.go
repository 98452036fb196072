package router

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/agentcube/agentcube/pkg/session"
)

// chooseEntryPoint returns the entry point whose path is the longest prefix
// of the request's path (as sent), on segment borders; the first one if none
// is. False: there is none at all.
func chooseEntryPoint(points []session.EntryPoint, path string) (session.EntryPoint, bool) {
	if len(points) == 0 {
		return session.EntryPoint{}, false
	}
	path = decodeSegments(path)
	best, length := 0, -1
	for i, p := range points {
		prefix := "/" + strings.Trim(p.Path, "/")
		if prefix == "/" {
			prefix = ""
		}
		if len(prefix) > length && matches(path, prefix) {
			best, length = i, len(prefix)
		}
	}
	return points[best], true
}

func matches(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// decodeSegments decodes a path as its sandbox will read it, so that "/%61pi"
// is "/api", but keeps an escaped slash, which is no segment border.
func decodeSegments(path string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) {
			hi, lo := unhex(path[i+1]), unhex(path[i+2])
			if c := hi<<4 | lo; hi >= 0 && lo >= 0 && c != '/' {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// unhex returns the value of a hexadecimal digit, -1 for anything else.
func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}

// checkEndpoint refuses what no sandbox can have as its address. Rows are
// data: one that was tampered with must not make the router reach its own
// machine, the node's metadata service or a whole network.
func checkEndpoint(endpoint string, allowLoopback bool) error {
	ap, err := netip.ParseAddrPort(endpoint)
	if err != nil {
		return fmt.Errorf("%w: %q is not an IP address and port", errBadEndpoint, endpoint)
	}
	ip := ap.Addr().Unmap()
	switch {
	case ap.Port() == 0:
		return fmt.Errorf("%w: %q has no port", errBadEndpoint, endpoint)
	case ip.IsLoopback() && !allowLoopback:
		return fmt.Errorf("%w: %q is a loopback address", errBadEndpoint, endpoint)
	case ip.Zone() != "", ip.IsUnspecified(), ip.IsMulticast(), ip.IsLinkLocalUnicast(),
		ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("%w: %q is no address of a pod", errBadEndpoint, endpoint)
	}
	return nil
}
