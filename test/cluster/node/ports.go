package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

const (
	// defaultPort is served by a pod whose containers name no port.
	defaultPort = 8080
	// securePortName is the name of a container port that serves TLS.
	securePortName = "https"
)

// port is a TCP port that a pod listens on.
type port struct {
	number int32
	tls    bool
}

// portsOf lists the TCP ports of all containers, each once.
func portsOf(containers []corev1.Container, secure []int32) []port {
	var ports []port
	seen := map[int32]bool{}
	for _, c := range containers {
		for _, p := range c.Ports {
			if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP || seen[p.ContainerPort] {
				continue
			}
			seen[p.ContainerPort] = true
			ports = append(ports, port{
				number: p.ContainerPort,
				tls:    p.Name == securePortName || slices.Contains(secure, p.ContainerPort),
			})
		}
	}
	if ports == nil {
		return []port{{number: defaultPort, tls: slices.Contains(secure, defaultPort)}}
	}
	return ports
}
