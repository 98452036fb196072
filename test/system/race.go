//go:build race

package system

// raceDetector: a test that is built with the race detector builds the
// programs with it, or it would watch the test's own code only.
const raceDetector = true
