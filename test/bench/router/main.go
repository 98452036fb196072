// Bench-router measures the router against the bare reverse proxy of Go, which
// has the same transport and the same buffers, and against the sandbox without
// any proxy: throughput and latency, what a request allocates, the memory of open
// WebSockets, the delay of events in streams, and the memory of many sessions.
//
// The sandbox, the bare proxy, the routers, a real Redis and the load generator
// (wrk) are processes of their own. The parties take turns, so that whatever
// else the machine does meets all of them alike. What is printed is what was
// seen, next to its bound; nothing fails for being slow or large.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// settings of a run.
type settings struct {
	only        []string
	duration    time.Duration
	rounds      int
	connections []int
	sessions    []int

	sockets, socketRounds   int
	streams                 int
	streamFor, streamPeriod time.Duration

	authMode string
	program  string
	plots    string
	keep     string
}

func main() {
	s, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2) // the flag package has said why
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err = run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-router:", err)
		os.Exit(1)
	}
}

func parse(args []string) (settings, error) {
	s := settings{
		only:        partNames(),
		connections: []int{1, 16, 64, 256},
		sessions:    []int{1, 1_000, 100_000},
	}
	f := flag.NewFlagSet("bench-router", flag.ContinueOnError)
	f.Func("only", "`parts` to measure, separated by commas (default "+strings.Join(s.only, ",")+")", s.setOnly)
	f.DurationVar(&s.duration, "duration", 2*time.Second, "length of one turn of a party, in whole seconds")
	f.IntVar(&s.rounds, "rounds", 5, "turns of each party; medians are printed")
	f.Func("connections", "`numbers` of connections (default 1,16,64,256)", numbers(&s.connections))
	f.Func("sessions", "`numbers` of sessions, a router for each (default 1,1000,100000)", numbers(&s.sessions))
	f.IntVar(&s.sockets, "websockets", 9000, "open WebSockets whose memory is measured")
	f.IntVar(&s.socketRounds, "websocket-rounds", 3, "times that they are opened at each proxy")
	f.IntVar(&s.streams, "streams", 1000, "streams of events")
	f.DurationVar(&s.streamFor, "stream-duration", time.Minute, "how long the streams are listened to")
	f.DurationVar(&s.streamPeriod, "stream-interval", time.Second, "time between two events of a stream")
	f.StringVar(&s.authMode, "auth-mode", session.AuthModePicoD, "of the sessions: picod (the router signs a token for each) or none")
	f.StringVar(&s.program, "program", "", "router to measure; it is built from the source tree by default")
	f.StringVar(&s.plots, "plots", "", "`folder` to write plots to; none are made by default")
	f.StringVar(&s.keep, "logs", "", "`folder` to write the logs to; they are thrown away by default")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	return s, nil
}

func (s *settings) setOnly(text string) error {
	s.only = strings.Split(text, ",")
	for _, name := range s.only {
		if !slices.Contains(partNames(), name) {
			return fmt.Errorf("%q is none of %s", name, strings.Join(partNames(), ", "))
		}
	}
	return nil
}

// numbers parses positive numbers, and keeps them from small to large.
func numbers(into *[]int) func(string) error {
	return func(text string) error {
		var all []int
		for word := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is no positive number", word)
			}
			all = append(all, n)
		}
		slices.Sort(all)
		*into = all
		return nil
	}
}
