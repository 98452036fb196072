package storm

import "sync"

// points deals out crash points, each as often as any other, in the order of the
// seed. One that was not reached comes again at once.
type points struct {
	mu    sync.Mutex
	names []string
	bag   []string
}

func newPoints(p *Planner, names []string) *points {
	order := append([]string(nil), names...)
	p.Shuffle(order)
	return &points{names: order}
}

func (p *points) next() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.bag) == 0 {
		p.bag = append(p.bag, p.names...)
	}
	name := p.bag[0]
	p.bag = p.bag[1:]
	return name
}

func (p *points) missed(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bag = append([]string{name}, p.bag...)
}
