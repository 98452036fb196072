package storm

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Kind of a step.
type Kind string

// What a step does. Faults and crashes are told apart by what the planner draws
// for them.
const (
	CreateRuntime  Kind = "create runtime"
	CreateCold     Kind = "create cold"
	CreateWarm     Kind = "create warm"
	CreateShort    Kind = "create short-lived"
	CreateRouter   Kind = "create through the router"
	CreateHangUp   Kind = "create and hang up"
	Delete         Kind = "delete"
	DeleteCreating Kind = "delete while creating"
	Invoke         Kind = "invoke"
	Patch          Kind = "patch lifetimes"
	Keepalive      Kind = "keepalive"
	KubeObject     Kind = "kubectl delete object"
	KubePod        Kind = "kubectl delete pod"
	KubeAdopted    Kind = "kubectl delete adopted sandbox"
	KubeTemplate   Kind = "kubectl delete codeinterpreter"
	KubeNamespace  Kind = "kubectl delete namespace"
	KubeLabel      Kind = "kubectl label"
	Stranger       Kind = "copy a label"
	Crash          Kind = "crash"
	Fault          Kind = "fault"
)

// weights say how often each kind comes up, in 200 steps.
var weights = []struct {
	kind   Kind
	weight int
}{
	{CreateRuntime, 22},
	{CreateCold, 14},
	{CreateWarm, 24},
	{CreateShort, 8},
	{CreateRouter, 12},
	{CreateHangUp, 4},
	{Delete, 16},
	{DeleteCreating, 4},
	{Invoke, 24},
	{Patch, 7},
	{Keepalive, 3},
	{KubeObject, 12},
	{KubePod, 8},
	{KubeAdopted, 5},
	{KubeTemplate, 3},
	{KubeNamespace, 2},
	{KubeLabel, 6},
	{Stranger, 4},
	{Crash, 11},
	{Fault, 11},
}

// Step is one thing to do. Everything random about it is drawn in advance, so
// that a seed always gives the same steps; which session a draw means depends
// on those that exist by then.
type Step struct {
	Number int
	Kind   Kind
	// Pause before the step.
	Pause time.Duration
	// A, B and C are what the step chooses by.
	A, B, C uint64
	// Fault, for a Fault.
	Fault string
}

// draw chooses one of n.
func draw(value uint64, n int) int { return int(value % uint64(n)) }

// between chooses a duration.
func between(value uint64, from, to time.Duration) time.Duration {
	return from + time.Duration(value%uint64(to-from))
}

// Pauses between two steps.
const (
	shortPause = 50 * time.Millisecond
	longPause  = 800 * time.Millisecond
)

// Planner draws steps. Kinds come in a shuffled order, each as often as its weight
// says in every 200 steps. Faults come in a shuffled order, each as often as any
// other.
type Planner struct {
	random *rand.Rand
	number int
	kinds  []Kind
	faults []string
	bag    []string
}

// NewPlanner returns the planner of a seed. faults are the names of all faults.
func NewPlanner(seed uint64, faults []string) *Planner {
	return &Planner{random: rand.New(rand.NewPCG(seed, 0)), faults: faults}
}

// Next is the next step.
func (p *Planner) Next() Step {
	p.number++
	s := Step{
		Number: p.number, Kind: p.kind(), Pause: between(p.random.Uint64(), shortPause, longPause),
		A: p.random.Uint64(), B: p.random.Uint64(), C: p.random.Uint64(),
	}
	if s.Kind == Fault {
		s.Fault = p.fault()
	}
	return s
}

// Shuffle puts names into the order of the seed.
func (p *Planner) Shuffle(names []string) {
	p.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
}

// kind is the next one of the bag. Drawn one by one, a run of any length could
// meet too few of a kind to say anything of it.
func (p *Planner) kind() Kind {
	if len(p.kinds) == 0 {
		for _, w := range weights {
			p.kinds = append(p.kinds, slices.Repeat([]Kind{w.kind}, w.weight)...)
		}
		p.random.Shuffle(len(p.kinds), func(i, j int) { p.kinds[i], p.kinds[j] = p.kinds[j], p.kinds[i] })
	}
	kind := p.kinds[0]
	p.kinds = p.kinds[1:]
	return kind
}

func (p *Planner) fault() string {
	if len(p.bag) == 0 {
		p.bag = append(p.bag, p.faults...)
		p.Shuffle(p.bag)
	}
	name := p.bag[0]
	p.bag = p.bag[1:]
	return name
}
