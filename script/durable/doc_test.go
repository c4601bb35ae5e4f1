// Package runs_test has the black-box tests of the packages below this folder, in files named after the
// packages. They are in one test binary, because linking one takes longer than running most of the tests.
package durable_test
