package cluster

import (
	"errors"
	"fmt"
	"sync"

	"github.com/agentcube/agentcube/test/cluster/process"
)

// portRaces is how often a process is started again on other ports after a
// foreign program took one between the reservation and the start.
const portRaces = 5

// ports holds the reservations of a cluster.
type ports struct {
	mu   sync.Mutex // guards held
	held []*process.Port
}

// reserve takes n ports.
func (p *ports) reserve(n int) ([]*process.Port, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var taken []*process.Port
	for range n {
		port, err := process.ReservePort()
		if err != nil {
			return nil, err
		}
		p.held = append(p.held, port)
		taken = append(taken, port)
	}
	return taken, nil
}

func (p *ports) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, port := range p.held {
		port.Release()
	}
	p.held = nil
}

// onFreePorts calls start with n reserved ports, and again with others as long as
// the process ends because one of them was taken. Ports that were lost stay
// reserved, so that they are not tried again.
func (p *ports) onFreePorts(n int, start func([]*process.Port) error) error {
	var err error
	for range portRaces {
		var taken []*process.Port
		if taken, err = p.reserve(n); err != nil {
			return err
		}
		err = start(taken)
		var exit *process.ExitError
		if err == nil || !errors.As(err, &exit) || !exit.AddressInUse() {
			return err
		}
	}
	return fmt.Errorf("each of %d sets of ports was taken: %w", portRaces, err)
}
