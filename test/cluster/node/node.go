// Package node is the simulated node of the development cluster: it watches
// pods, gives each an address of its own, makes it Running and Ready and serves
// real HTTP on its container ports until the pod is deleted.
//
// It runs no containers: what a pod answers is in echo.go, and how it behaves is
// told by annotations (behaviour.go) or by the methods of Node.
package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/test/cluster/pki"
)

// Defaults of Options.
const (
	DefaultName      = "development-node"
	DefaultBootTime  = 300 * time.Millisecond
	DefaultSilentFor = 2 * time.Minute
)

// Options of a node.
type Options struct {
	// Client reaches the API server, with the right to read and write nodes and
	// pods. It should have no rate limit.
	Client kubernetes.Interface
	// Name of the Node object; DefaultName by default.
	Name string
	// BootTime is how long a pod takes from being bound to being Ready, unless its
	// annotation says otherwise; DefaultBootTime by default.
	BootTime time.Duration
	// AtEnd is what an address does after its pod, unless the pod's annotation
	// says otherwise; it refuses by default.
	AtEnd End
	// SilentFor is how long an address stays silent after its pod, unless the
	// pod's annotation says otherwise; DefaultSilentFor by default.
	SilentFor time.Duration
	// Log takes a line for whatever goes wrong; nil for none.
	Log io.Writer
}

// Node is a simulated node. Its methods may be called from any goroutine.
type Node struct {
	clock     clock.Clock
	options   Options
	addresses *addresses
	web       *http.Server
	ready     chan struct{} // closed once the node takes pods

	mu     sync.Mutex // guards pods and byName
	pods   map[types.UID]*pod
	byName map[types.NamespacedName]*pod // the youngest pod of a name

	work sync.WaitGroup // the goroutines of pods and listeners
}

// New reserves a range of addresses and returns a node that is not running. It
// fails when no range is free.
func New(clk clock.Clock, options Options) (*Node, error) {
	if options.Name == "" {
		options.Name = DefaultName
	}
	if options.BootTime == 0 {
		options.BootTime = DefaultBootTime
	}
	if options.AtEnd == "" {
		options.AtEnd = Refuse
	}
	if options.SilentFor == 0 {
		options.SilentFor = DefaultSilentFor
	}
	if options.Log == nil {
		options.Log = io.Discard
	}
	n := &Node{
		clock: clk, options: options, ready: make(chan struct{}),
		pods: map[types.UID]*pod{}, byName: map[types.NamespacedName]*pod{},
	}
	pair, err := pki.SelfSigned("localhost")
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the pods: %w", err)
	}
	n.web = newWebServer(clk, certificate)
	n.addresses, err = reserveAddresses()
	return n, err
}

// Ready is closed once the Node object exists and the pods that exist are known.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Run takes care of pods until ctx ends; then every address refuses. It may be
// called once.
func (n *Node) Run(ctx context.Context) error {
	defer n.addresses.release()
	if err := n.register(ctx); err != nil {
		return fmt.Errorf("registering the node: %w", err)
	}
	err := n.watch(ctx)
	// The pods' goroutines end with ctx and shut their addresses, which ends the
	// listeners.
	n.work.Wait()
	return err
}

// Address returns the address of the pod of that name, without a port, or "" if
// it has none (yet, or any more).
func (n *Node) Address(namespace, name string) string {
	p := n.find(namespace, name)
	if p == nil || p.place() == nil {
		return ""
	}
	return p.place().address
}

// Requests returns how many requests have reached the pod of that name, counted
// from the creation of that pod.
func (n *Node) Requests(namespace, name string) int {
	p := n.find(namespace, name)
	if p == nil || p.place() == nil {
		return 0
	}
	return int(p.place().requests.Load())
}

// Silence makes the address of a pod go silent while the pod lives on: open
// connections stay unanswered and new dials hang.
func (n *Node) Silence(namespace, name string) error {
	p := n.find(namespace, name)
	if p == nil || p.place() == nil {
		return fmt.Errorf("silencing pod %s/%s: %w", namespace, name, errNoAddress)
	}
	return p.place().silence()
}

func (n *Node) find(namespace, name string) *pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byName[types.NamespacedName{Namespace: namespace, Name: name}]
}

// complain writes a line about what went wrong with a pod.
func (n *Node) complain(p *pod, err error) {
	fmt.Fprintf(n.options.Log, "%s pod %s: %v\n", n.clock.Now().Format(time.RFC3339Nano), p.name, err)
}
