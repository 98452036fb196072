package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// monitor listens to every command that a Redis runs, those of scripts too.
type monitor struct {
	conn    net.Conn
	traffic traffic
	done    chan error
}

// traffic is what the commands of a pass come to.
type traffic struct {
	commands int
	// rows that were read, each counted once.
	rows map[string]bool
	// reads of rows: by commands, and within scripts.
	plain, scripts int
	// first and last of those reads.
	first, last time.Time
}

func startMonitor(ctx context.Context, address string) (*monitor, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(conn)
	if answer, err := lines.ReadString('\n'); err != nil || answer != "+OK\r\n" {
		return nil, fmt.Errorf("MONITOR: %q: %w", answer, err)
	}
	m := &monitor{conn: conn, traffic: traffic{rows: map[string]bool{}}, done: make(chan error, 1)}
	go func() { m.done <- m.listen(lines) }()
	return m, nil
}

func (m *monitor) close() { _ = m.conn.Close() } // nothing is written

// stop returns what was seen until now. The log that the end was read from is
// written after the last command was answered, and MONITOR tells of a command
// before that; what it has sent is read to its end.
func (m *monitor) stop() (traffic, error) {
	if err := m.conn.SetReadDeadline(time.Now().Add(lookInterval)); err != nil {
		return traffic{}, err
	}
	if err := <-m.done; !isTimeout(err) {
		return traffic{}, fmt.Errorf("reading what Redis does: %w", err)
	}
	return m.traffic, nil
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // of the connection itself
	return ok && timeout.Timeout()
}

// listen reads until the connection ends or its deadline has passed.
func (m *monitor) listen(lines *bufio.Reader) error {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		if c, ok := parseCommand(line); ok {
			m.traffic.add(c)
		}
	}
}

// command is a line such as
//
//	+1700000000.123456 [0 127.0.0.1:40000] "GET" "session:…"
//	+1700000000.123456 [0 lua] "GET" "session:…"
type command struct {
	at     time.Time
	script bool
	words  []string
}

var (
	commandLine = regexp.MustCompile(`^\+(\d+)\.(\d{6}) \[\d+ (\S+)\] (.*)\r\n$`)
	word        = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
)

func parseCommand(line string) (command, bool) {
	parts := commandLine.FindStringSubmatch(line)
	if parts == nil {
		return command{}, false
	}
	seconds, err1 := strconv.ParseInt(parts[1], 10, 64)
	micros, err2 := strconv.ParseInt(parts[2], 10, 64)
	if err1 != nil || err2 != nil {
		return command{}, false
	}
	c := command{at: time.Unix(seconds, micros*1000), script: parts[3] == "lua"}
	for _, w := range word.FindAllStringSubmatch(parts[4], -1) {
		c.words = append(c.words, w[1])
	}
	return c, len(c.words) > 0
}

// rowRead returns the session whose row a command reads.
func (c command) rowRead() (id string, ok bool) {
	if len(c.words) < 2 || !strings.EqualFold(c.words[0], "GET") {
		return "", false
	}
	id, ok = strings.CutPrefix(c.words[1], "session:")
	return id, ok && session.ValidID(id)
}

func (t *traffic) add(c command) {
	t.commands++
	id, ok := c.rowRead()
	if !ok {
		return
	}
	if t.first.IsZero() {
		t.first = c.at
	}
	t.last = c.at
	t.rows[id] = true
	if c.script {
		t.scripts++
	} else {
		t.plain++
	}
}
