// Package floods sends a running `vmcp serve` more requests and data than its bounds allow, and measures its
// memory and the latency of another client meanwhile.
//
// Its tests have the build tag suites: a step of .ci/run runs them.
package floods
