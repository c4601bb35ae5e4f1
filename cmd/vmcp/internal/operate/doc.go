// Package operate has the commands for those who run an endpoint: status, logs, describe and doctor, runs (runs.go),
// policy (policies.go), tokens (tokens.go) and login (login.go). They ask the API below /api/v1, which never contains the
// value of a variable.
package operate
