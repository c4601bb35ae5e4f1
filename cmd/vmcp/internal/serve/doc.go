// Package serve has what vmcp serve is made of besides the proxy: several servers in one process (servers.go), the export of
// metrics and traces over OTLP (otlp.go), sockets and readiness of systemd (systemd.go), certificate roots (roots.go),
// and the commands about the program itself (info.go).
package serve
