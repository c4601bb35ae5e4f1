package files

import "strings"

// IsTest reports whether the name of a file is that of a test of scripts: it is neither a
// tool nor a library.
func IsTest(name string) bool { return strings.HasSuffix(name, "_test.star") }
