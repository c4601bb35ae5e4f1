package edge

import (
	"net/http"
	"strings"
)

const (
	allowedMethods = "GET, POST, DELETE, OPTIONS"
	// exposedHeaders are the response headers that a page may read.
	exposedHeaders = "Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, Retry-After, Traceparent"
	// preflightAge is how long a browser may cache a preflight response, in seconds.
	preflightAge = "600"
	paramPrefix  = "mcp-param-"
	// maxParams bounds the Mcp-Param headers of one preflight.
	maxParams = 64
)

// allowedHeaders are the request headers that a page may send, in addition to Mcp-Param headers.
var allowedHeaders = []string{
	"Accept", "Authorization", "Content-Type", "Last-Event-ID", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version",
	"Mcp-Session-Id", "Traceparent", "Tracestate", "Baggage",
}

// allow lets the page of an accepted origin read the response. Credentials such as cookies are
// not allowed: a page sends its token itself.
func allow(h http.Header, origin string) {
	h["Vary"] = append(h["Vary"], "Origin")
	h["Access-Control-Allow-Origin"] = []string{origin}
	h["Access-Control-Expose-Headers"] = []string{exposedHeaders}
}

// Preflight responds to an OPTIONS request of an accepted origin. It needs no authentication,
// because browsers send no credentials with it.
func Preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Allow", allowedMethods)
	if r.Header.Get("Access-Control-Request-Method") != "" {
		h["Vary"] = append(h["Vary"], "Access-Control-Request-Method", "Access-Control-Request-Headers")
		h.Set("Access-Control-Allow-Methods", allowedMethods)
		h.Set("Access-Control-Allow-Headers", headersFor(r))
		h.Set("Access-Control-Max-Age", preflightAge)
	}
	w.WriteHeader(http.StatusNoContent)
}

// headersFor returns the allowed headers, with the Mcp-Param headers that a preflight names:
// their names depend on the tools.
func headersFor(r *http.Request) string {
	allowed, params := strings.Join(allowedHeaders, ", "), 0
	for _, line := range r.Header["Access-Control-Request-Headers"] {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			if rest, ok := strings.CutPrefix(name, paramPrefix); ok && isToken(rest) && params < maxParams {
				allowed += ", " + name
				params++
			}
		}
	}
	return allowed
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}
