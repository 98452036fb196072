//go:build !chaos

package main

import "github.com/agentcube/agentcube/pkg/sandbox"

// A build with the tag chaos wraps what the work on sessions uses, so that the
// process can be made to die between any two calls (crash_chaos.go). These do
// nothing.

func chaosStore[C, S any](_ C, s S) S { return s }

func chaosCluster[C any](c C) C { return c }

func chaosEvents[S any](_ S, handle func(sandbox.Event)) func(sandbox.Event) { return handle }
