// Package internal_test has the black-box tests of folders beside it, in files named after the folders. They are
// one program, because linking takes longer than most of them.
package internal_test
