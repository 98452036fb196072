package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/agentcube/agentcube/test/cluster/process"
)

// ErrEmbedded is returned by what only a real Redis can do.
var ErrEmbedded = errors.New("the embedded Redis cannot do this; install redis-server")

// RedisOptions of a Redis.
type RedisOptions struct {
	// Password that clients must give; none by default.
	Password string
	// AppendOnly makes writes survive a restart: every write is in the file before
	// it is answered.
	AppendOnly bool
	// Embedded uses the embedded Redis even where a real one is installed.
	Embedded bool
	// Dir takes the data and the log; by default a temporary folder that is
	// removed at the end.
	Dir string
}

// Redis is a store for tests and demonstrations: a real redis-server where one is
// installed, else an embedded one, which cannot be killed or frozen.
type Redis struct {
	// Addr is host:port. It stays the same over restarts.
	Addr string
	// Real tells whether it is a redis-server.
	Real bool

	password string
	server   *process.Process
	embedded *miniredis.Miniredis
	close    func()
}

// StartRedis starts a Redis and returns once it answers. It is stopped and its
// temporary folder removed when ctx ends, or by Close.
func StartRedis(ctx context.Context, options RedisOptions) (*Redis, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil || options.Embedded {
		r, err := startEmbedded(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("starting the embedded Redis: %w", err)
		}
		return r, nil
	}
	r := &Redis{Real: true, password: options.Password}
	if err := r.startReal(ctx, path, options); err != nil {
		return nil, fmt.Errorf("starting Redis: %w", err)
	}
	return r, nil
}

func (r *Redis) startReal(ctx context.Context, path string, options RedisOptions) error {
	dir, remove := options.Dir, func() {}
	if dir == "" {
		temp, err := os.MkdirTemp("", "agentcube-redis-")
		if err != nil {
			return err
		}
		dir, remove = temp, func() { os.RemoveAll(temp) }
	}
	var held ports
	err := held.onFreePorts(1, func(p []*process.Port) error {
		r.Addr = p[0].Address()
		r.server = process.New(process.Spec{
			Name:  "redis-server",
			Path:  path,
			Args:  redisArgs(dir, p[0], options),
			Log:   filepath.Join(dir, "redis.log"),
			Ready: r.ping,
		})
		return r.server.Start(ctx)
	})
	release := func() {
		_ = r.server.Stop() // it ends in any case
		held.release()
		remove()
	}
	if err != nil {
		release()
		return err
	}
	r.close = closeWith(ctx, release)
	return nil
}

func redisArgs(dir string, port *process.Port, options RedisOptions) []string {
	args := []string{
		"--bind", "127.0.0.1", "--port", port.String(), "--dir", dir,
		"--save", "", "--maxmemory-policy", "noeviction",
	}
	if options.AppendOnly {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	}
	if options.Password != "" {
		args = append(args, "--requirepass", options.Password)
	}
	return args
}

// closeWith returns a function that runs release once, and that is called when
// ctx ends.
func closeWith(ctx context.Context, release func()) func() {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		release()
	})
	return func() {
		if stop() {
			defer close(done)
			release()
			return
		}
		<-done
	}
}

// Close stops the Redis and removes its temporary folder.
func (r *Redis) Close() { r.close() }

// Start starts a stopped or killed Redis on the same address.
func (r *Redis) Start(ctx context.Context) error {
	if !r.Real {
		return r.embedded.Restart()
	}
	return r.server.Start(ctx)
}

// Stop ends the Redis in an orderly way and returns once it is gone. Without
// AppendOnly a real one forgets everything; the embedded one keeps it.
func (r *Redis) Stop() error {
	if !r.Real {
		r.embedded.Close()
		return nil
	}
	return r.server.Stop()
}

// Kill ends a real Redis as kill -9 does; otherwise it returns [ErrEmbedded].
func (r *Redis) Kill() error { return r.real((*process.Process).Kill) }

// Pause freezes a real Redis; otherwise it returns [ErrEmbedded].
func (r *Redis) Pause() error { return r.real((*process.Process).Pause) }

// Resume lets a frozen Redis go on; it returns [ErrEmbedded] for an embedded one.
func (r *Redis) Resume() error { return r.real((*process.Process).Resume) }

// Process returns the process of a real Redis, nil for an embedded one.
func (r *Redis) Process() *process.Process { return r.server }

// FlushAll removes every key.
func (r *Redis) FlushAll(ctx context.Context) error {
	if !r.Real {
		r.embedded.FlushAll()
		return nil
	}
	return r.command(ctx, "FLUSHALL")
}

func (r *Redis) real(do func(*process.Process) error) error {
	if !r.Real {
		return ErrEmbedded
	}
	return do(r.server)
}

func (r *Redis) ping(ctx context.Context) error { return r.command(ctx, "PING") }

// command sends one command on a connection of its own and wants a simple answer
// (+OK, +PONG). Two commands in a lifetime are no reason for a client library.
func (r *Redis) command(ctx context.Context, words ...string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", r.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline := time.Now().Add(probeTimeout)
	if sooner, ok := ctx.Deadline(); ok && sooner.Before(deadline) {
		deadline = sooner
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	commands := [][]string{words}
	if r.password != "" {
		commands = [][]string{{"AUTH", r.password}, words}
	}
	answers := bufio.NewReader(conn)
	for _, words := range commands {
		if _, err := io.WriteString(conn, encodeCommand(words)); err != nil {
			return err
		}
		answer, err := answers.ReadString('\n')
		if err != nil {
			return err
		}
		if !strings.HasPrefix(answer, "+") {
			return fmt.Errorf("%s: Redis answered %q", words[0], strings.TrimSpace(answer))
		}
	}
	return nil
}

// encodeCommand writes a command as Redis reads it: an array of bulk strings.
func encodeCommand(words []string) string {
	var b strings.Builder
	b.WriteString("*" + strconv.Itoa(len(words)) + "\r\n")
	for _, word := range words {
		b.WriteString("$" + strconv.Itoa(len(word)) + "\r\n" + word + "\r\n")
	}
	return b.String()
}
