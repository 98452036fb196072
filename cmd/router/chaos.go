//go:build !chaos

package main

// chaosStore does nothing: only a build with the tag chaos can have a planted
// bug (planted_chaos.go).
func chaosStore[S any](s S) S { return s }
