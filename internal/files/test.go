package files

import "strings"

// IsTest reports whether a file name is that of a script test, which is neither a tool nor a
// library.
func IsTest(name string) bool { return strings.HasSuffix(name, "_test.star") }
