//go:build chaos

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// A build with the tag chaos dies by SIGKILL at the n-th time it passes the
// point that AGENTCUBE_CRASH_AT names as name:n. The value "list" prints every
// name, one a line, and ends.
const crashVariable = "AGENTCUBE_CRASH_AT"

// The calls that have a point before and one after: every write to the store,
// and every call to the API server, that the work on sessions makes.
var (
	storeCalls   = []string{"Create", "Update", "End", "Remove", "Postpone", "Index"}
	clusterCalls = []string{"Create", "Get", "Delete", "SandboxUID", "SetSessionLabel", "SetLifetimes"}
)

// crashPoints are the names of all points.
func crashPoints() []string {
	var names []string
	for _, c := range storeCalls {
		names = append(names, "store."+c+".before", "store."+c+".after")
	}
	for _, c := range clusterCalls {
		names = append(names, "cluster."+c+".before", "cluster."+c+".after")
	}
	return names
}

// armed is the point at which this process dies, if any.
var armed struct {
	name string
	left atomic.Int64
}

// It is an init so that neither main nor the settings know of it.
func init() {
	value := os.Getenv(crashVariable)
	switch value {
	case "":
		return
	case "list":
		fmt.Println(strings.Join(crashPoints(), "\n"))
		os.Exit(0)
	}
	name, times, _ := strings.Cut(value, ":")
	n, err := strconv.ParseInt(times, 10, 64)
	if err != nil || n < 1 || !slices.Contains(crashPoints(), name) {
		fmt.Fprintf(os.Stderr, "%s: %q is not name:n with a name of the list\n", crashVariable, value)
		os.Exit(2)
	}
	armed.name = name
	armed.left.Store(n)
}

// pass is called at each point.
func pass(name string) {
	if name != armed.name || armed.left.Add(-1) != 0 {
		return
	}
	fmt.Fprintln(os.Stderr, "dying at crash point", name)
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {} // nothing more happens here
}

// around makes a call between its two points.
func around[T any](name string, call func() (T, error)) (T, error) {
	pass(name + ".before")
	v, err := call()
	pass(name + ".after")
	return v, err
}

// aroundErr is around for a call that returns an error only.
func aroundErr(name string, call func() error) error {
	_, err := around(name, func() (struct{}, error) { return struct{}{}, call() })
	return err
}
