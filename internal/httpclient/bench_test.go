package httpclient

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkRoundTrip is one request and its answer, by this package and by http.Transport.
func BenchmarkRoundTrip(b *testing.B) {
	body := strings.Repeat("x", 100)
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Sun, 22 Nov 2026 18:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	s := serve(b, func(c *serverConn) {
		for {
			if _, more := c.request(); !more {
				return
			}
			c.write(answer)
		}
	})
	std := standard()
	defer std.CloseIdleConnections()
	for _, by := range []struct {
		name string
		t    http.RoundTripper
	}{{"lean", lean(b, s, standard())}, {"std", std}} {
		b.Run(by.name, func(b *testing.B) {
			header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
			buf := make([]byte, 1000)
			b.ReportAllocs()
			for b.Loop() {
				r := post(b.Context(), s, body)
				r.Header = header
				resp, err := by.t.RoundTrip(r)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = resp.Body.Read(buf)
				}
				if resp.Body.Close(); err != io.EOF {
					b.Fatal(err)
				}
			}
		})
	}
}
