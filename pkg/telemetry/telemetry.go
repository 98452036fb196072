// Package telemetry owns how the programs speak of themselves: the logger,
// the metrics registry and the build they are.
//
// It does not decide what is worth telling: records and metrics belong to the
// packages they are about.
package telemetry
