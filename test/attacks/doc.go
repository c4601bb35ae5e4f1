// Package attacks runs hostile scripts in a running `vmcp serve`, with a backend over HTTP,
// and measures the process from outside: its memory, the latency of other calls
// meanwhile, and whether it still runs.
//
// Its tests have the build tag suites: a step of .ci/run runs them.
package attacks
