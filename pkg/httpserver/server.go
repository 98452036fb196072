package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/utils/clock"
)

const (
	// readHeaderTimeout bounds a request's head, against clients that send it
	// byte by byte. Bodies and answers have no bound here: they may be streams.
	readHeaderTimeout = 10 * time.Second
	// idleTimeout is longer than the minute that load balancers keep a
	// connection for, so that it is they who close it.
	idleTimeout = 2 * time.Minute
	// cutGrace is what handlers get to return after their connections were cut.
	cutGrace = 2 * time.Second
)

// Options of a server.
type Options struct {
	// Addr is host:port; port 0 takes a free one.
	Addr string
	// TLS is nil for cleartext.
	TLS     *tls.Config
	Handler http.Handler
	// Health is told when draining begins.
	Health *Health
	// DrainDelay is how long the server goes on as before after readiness
	// began to fail, until endpoints everywhere have dropped it.
	DrainDelay time.Duration
	// DrainTimeout bounds the wait for requests and upgraded connections.
	DrainTimeout time.Duration
}

// Server serves HTTP/1.1 and HTTP/2, in cleartext too.
type Server struct {
	clk      clock.WithTicker
	opts     Options
	log      *zap.Logger
	listener *trackingListener
	http     *http.Server
	handlers inFlight
}

// Listen opens the listener, so that a taken port is an error before anything
// runs. Connections wait in it until Run.
func Listen(ctx context.Context, clk clock.WithTicker, opts Options, log *zap.Logger) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.Addr)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &Server{clk: clk, opts: opts, log: log, listener: newTrackingListener(listener)}
	s.http = &http.Server{
		Handler:           s.handlers.track(opts.Handler),
		TLSConfig:         opts.TLS,
		Protocols:         protocols,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
	}
	// Failed handshakes and the like: the peer's mistakes, mostly.
	s.http.ErrorLog, err = zap.NewStdLogAt(log, zapcore.InfoLevel)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the server's log: %w", err), listener.Close())
	}
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until ctx ends, then stops in order:
//
//  1. Readiness fails, so that no new traffic is sent here.
//  2. The delay passes, because traffic goes on until everyone has noticed.
//  3. The listener closes and requests finish, upgraded connections too. What
//     is left at the bound is cut: its context ends, its connection closes.
//  4. Run returns. No handler is running, unless one ignores its context.
//
// The requests' contexts do not end with ctx. An error means that serving
// failed; connections cut at the bound are a log record.
func (s *Server) Run(ctx context.Context) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	s.http.BaseContext = func(net.Listener) context.Context { return requests }
	served := make(chan error, 1)
	go func() { served <- s.serve() }()

	select {
	case err := <-served:
		s.opts.Health.Drain()
		s.drain(requests, cut) // what is connected already is served on
		return fmt.Errorf("serving on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	s.opts.Health.Drain()     // 1
	s.wait(s.opts.DrainDelay) // 2
	s.drain(requests, cut)    // 3
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", s.Addr(), err)
	}
	return nil
}

func (s *Server) serve() error {
	if s.opts.TLS != nil {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}

func (s *Server) wait(d time.Duration) {
	if d > 0 {
		<-s.clk.After(d)
	}
}

// drain waits for requests and connections, and cuts what is left.
func (s *Server) drain(requests context.Context, cut context.CancelFunc) {
	bound, cancel := context.WithCancel(requests)
	defer cancel()
	timer := s.clk.NewTimer(s.opts.DrainTimeout)
	defer timer.Stop()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		// Shutdown knows nothing of hijacked connections: these are whatever is
		// still open once it is done.
		if s.http.Shutdown(bound) == nil {
			s.listener.waitClosed(bound)
			s.handlers.wait(bound)
		}
	}()
	select {
	case <-drained:
		return
	case <-timer.C():
	}
	cancel()
	<-drained
	cut()
	_ = s.http.Close() // closes the listener again, which is no news
	if n := s.listener.closeAll(); n > 0 {
		s.log.Warn("connections cut at the end of the drain", zap.Int("connections", n))
	}
	grace, done := context.WithCancel(context.WithoutCancel(requests))
	defer done()
	last := s.clk.NewTimer(cutGrace)
	defer last.Stop()
	go func() {
		select {
		case <-last.C():
			done()
		case <-grace.Done():
		}
	}()
	s.handlers.wait(grace)
}
