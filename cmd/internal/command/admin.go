package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// adminHeaderTimeout bounds the head of a request to the admin's listener.
const adminHeaderTimeout = 5 * time.Second

// admin serves what only whoever is on the machine, or in the pod, may do: read
// and set the log level. It is no route of the program's own port, which others
// reach.
type admin struct {
	listener net.Listener
	server   *http.Server
	done     chan struct{} // closed when it has ended
}

// serveAdmin serves until close. Without an address there is none, nil.
func serveAdmin(ctx context.Context, address string, level zap.AtomicLevel, log *zap.Logger) (*admin, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--admin-address: %w", err)
	}
	errorLog, err := zap.NewStdLogAt(log.Named("admin"), zapcore.InfoLevel)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	routes := http.NewServeMux()
	routes.Handle("GET /log/level", level)
	routes.HandleFunc("PUT /log/level", func(w http.ResponseWriter, r *http.Request) {
		// It is JSON, as the answer is; curl calls a body a form that nobody named.
		r.Header.Del("Content-Type")
		before := level.Level()
		level.ServeHTTP(w, r)
		if after := level.Level(); after != before {
			// At the higher of both, so that either level shows it.
			log.Log(max(before, after, zapcore.InfoLevel), "log level set", zap.Stringer("before", before), zap.Stringer("after", after))
		}
	})
	a := &admin{
		listener: listener,
		server:   &http.Server{Handler: routes, ReadHeaderTimeout: adminHeaderTimeout, ErrorLog: errorLog},
		done:     make(chan struct{}),
	}
	go func() {
		defer close(a.done)
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the log level cannot be set any more", zap.Error(err))
		}
	}()
	return a, nil
}

// close ends it, and whatever it serves.
func (a *admin) close() {
	if a == nil {
		return
	}
	_ = a.server.Close() // it has nothing to lose
	<-a.done
}
