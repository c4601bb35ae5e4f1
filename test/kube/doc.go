// Package kube runs vmcp serve --kubernetes with a real API server of Kubernetes, with the permissions of the ServiceAccount of
// deploy/base only. VMCP_APISERVER is the path of the built test/apiserver.
//
// Its tests have the build tag suites: a step of .ci/run runs them.
package kube
