// Apiserver is a small API server for measurements: a fleet of sandboxes in
// memory, behind the part of the Kubernetes API that the workload-manager uses.
// It pages lists, streams watches and watch-lists with bookmarks, serves the
// metadata of objects alone in JSON and protobuf, and honours preconditions.
//
// It validates, defaults and authorises nothing, and its objects have no
// controllers: whether our programs do the right thing is tested on a real
// control plane, not here.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/agentcube/agentcube/test/bench/lifecycle/fleet"
)

type settings struct {
	addr      string
	cert, key string
	watchList bool
	fleet     fleet.Fleet
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

func parse() (settings, error) {
	var s settings
	var created string
	flag.StringVar(&s.addr, "addr", "127.0.0.1:0", "`host:port` to listen on")
	flag.StringVar(&s.cert, "cert", "", "certificate, a PEM `file`")
	flag.StringVar(&s.key, "key", "", "key of the certificate, a PEM `file`")
	flag.BoolVar(&s.watchList, "watch-list", true, "serve watches that begin with the whole list; refused otherwise, as by older API servers")
	flag.IntVar(&s.fleet.Size, "sessions", 0, "sessions that there are objects of")
	flag.StringVar(&s.fleet.Installation, "installation", "", "installation that the objects belong to")
	flag.StringVar(&created, "created", "", "when the objects were created, RFC 3339")
	flag.Parse()
	var err error
	s.fleet.Created, err = time.Parse(time.RFC3339, created)
	return s, err
}

func run() error {
	s, err := parse()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cluster := newCluster(s.fleet.LastResourceVersion())
	if err := cluster.load(s.fleet); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	fmt.Printf("serving %d sessions on %s\n", s.fleet.Size, listener.Addr())
	server := &http.Server{
		Handler:           newHandler(cluster, s.watchList),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // ends the watches
	}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // nothing is left to save
	if err := server.ServeTLS(listener, s.cert, s.key); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
