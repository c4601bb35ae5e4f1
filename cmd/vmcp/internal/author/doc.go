// Package author has the commands for those who write scripts: vmcp check (checker.go) and its fixes (fixer.go), fmt
// (formatter.go), lock (pinning.go), test (scripttests.go) with fakes (fake.go), and the trace of a call (trace.go).
package author
