package testkit

import (
	"io"
	"net"
	"testing"
	"time"
)

// BodyNeverComes sends a request without its body, and returns everything that the server sends until it
// closes the connection.
func BodyNeverComes(t testing.TB, addr string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: b\r\nContent-Length: 1000\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("a request without its body: %v", err)
	}
	return string(text)
}
