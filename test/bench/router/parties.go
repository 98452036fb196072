package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/agentcube/agentcube/test/bench/scrape"
	"github.com/agentcube/agentcube/test/cluster/process"
)

// startWithin bounds the start of each program.
const startWithin = time.Minute

// party is one way to the sandbox.
type party struct {
	*process.Process
	name, url string
	// sessions that are drawn from.
	sessions int
	router   bool
}

// parties of a run.
type parties struct {
	// direct is the sandbox itself.
	direct, bare *party
	// routers, from few sessions to many.
	routers []*party
}

// all of them.
func (p parties) all() []*party { return append([]*party{p.direct, p.bare}, p.routers...) }

// of is the router with about so many sessions: the first that has as many, or
// the one that has most.
func (p parties) of(sessions int) *party {
	for _, router := range p.routers {
		if router.sessions >= sessions {
			return router
		}
	}
	return p.routers[len(p.routers)-1]
}

func (p parties) stop() error {
	if p.direct == nil {
		return nil
	}
	var errs []error
	if p.bare != nil {
		errs = append(errs, p.bare.Stop())
	}
	for _, router := range p.routers {
		errs = append(errs, router.Stop())
	}
	return errors.Join(append(errs, p.direct.Stop())...)
}

func (b *bench) startParties(ctx context.Context) (err error) {
	most := b.sessions[len(b.sessions)-1]
	p := &b.parties
	if p.direct, err = b.newParty("direct", "sandbox", "-interval="+b.streamPeriod.String()); err != nil {
		return err
	}
	if p.bare, err = b.newParty("bare", "bare", "-target="+p.direct.url); err != nil {
		return err
	}
	p.direct.sessions, p.bare.sessions = most, most
	for _, n := range b.sessions {
		router, err := b.newRouter(fmt.Sprintf("router %d", n), n)
		if err != nil {
			return err
		}
		p.routers = append(p.routers, router)
	}
	for _, party := range p.all() {
		if err := party.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// newParty is one of the small programs of this folder.
func (b *bench) newParty(name, program string, args ...string) (*party, error) {
	port, err := b.port()
	if err != nil {
		return nil, err
	}
	url := "http://" + port.Address()
	return &party{name: name, url: url, Process: process.New(process.Spec{
		Name: program, Path: b.binary(program), Args: append([]string{"-addr=" + port.Address()}, args...),
		Log: filepath.Join(b.logs, program+".log"), ReadyWithin: startWithin, Ready: answers(url + "/small"),
	})}, nil
}

// newRouter is a router of its own for so many sessions, so that its cache holds
// these and no others.
func (b *bench) newRouter(name string, sessions int, env ...string) (*party, error) {
	port, err := b.port()
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(b.dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, b.kube.kubeconfig(), 0o600); err != nil {
		return nil, err
	}
	url := "http://" + port.Address()
	return &party{name: name, url: url, sessions: sessions, router: true, Process: process.New(process.Spec{
		Name: name, Path: b.program,
		Args: []string{
			"--port=" + port.String(), "--kubeconfig=" + kubeconfig, "--drain-delay=0s", "--allow-loopback-endpoints",
		},
		Env: append([]string{
			"REDIS_ADDR=" + b.redis.Addr, "REDIS_PASSWORD_REQUIRED=false", "WORKLOAD_MANAGER_URL=http://127.0.0.1:1",
		}, env...),
		Log: filepath.Join(b.logs, name+".log"), ReadyWithin: startWithin, Ready: answers(url + "/readyz"),
	})}, nil
}

// restart brings a process into the state of its start.
func (p *party) restart(ctx context.Context) error {
	if err := p.Stop(); err != nil {
		return err
	}
	if err := p.forgetLog(); err != nil {
		return err
	}
	return p.Start(ctx)
}

// forgetLog empties the log: every request is a record in it, which in a long
// run would fill the disk. The process appends, and so goes on at its start.
func (p *party) forgetLog() error { return os.Truncate(p.Log(), 0) }

// metrics of a proxy.
func (p *party) metrics(ctx context.Context) (scrape.Metrics, error) {
	return scrape.Read(ctx, p.url+"/metrics")
}

// invocation is the address of something that the sandbox does. All parties are
// asked for the same path, which the sandbox reads from its end.
func (p *party) invocation(what string) string { return p.url + invocations + what }

func answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, response.Status)
		}
		return nil
	}
}
