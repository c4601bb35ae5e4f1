// Package crash kills a real vmcp serve repeatedly while scripts run, and checks their effects and results.
//
// Its tests have the build tag suites: a step of .ci/run runs them.
package crash
