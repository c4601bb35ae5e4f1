// Package alerts brings a real `vmcp serve` into the states of the alert rules, and evaluates the rules on its /metrics
// with Prometheus' promtool.
//
// Its tests have the build tag suites: a step of .ci/run runs them.
package alerts
