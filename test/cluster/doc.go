// Package cluster runs three real replicas of vmcp serve with one PostgreSQL behind a load balancer that does not parse MCP, and
// tests what clients get while replicas are killed, stopped, restarted and given new keys.
//
// Its tests have the build tag suites: a step of .ci/run runs them.
package cluster
