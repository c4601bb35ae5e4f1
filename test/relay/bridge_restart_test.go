package relay

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// regional is a backend with one tool whose argument has to be sent in a header, too; its result has the header.
func regional(t *testing.T, header string) string {
	b := &backendtest.Raw{
		Modern: true,
		Tools:  fmt.Sprintf(`{"name":"where","inputSchema":{"type":"object","properties":{"in":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":%q}}}}}}`, header),
		Handle: func(x *backendtest.Exchange) {
			x.JSON(fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, header+"="+x.Request.Header.Get("Mcp-Param-"+header)))
		},
	}
	return b.Start(t)
}

// bridgeServe serves a vmcp on a listener until the returned function is called: with its streams ended one by one, or cut.
func bridgeServe(t *testing.T, l net.Listener, backends ...config.Backend) (stop func(graceful bool)) {
	t.Helper()
	p := proxy.New(proxy.Options{Version: "test"})
	srv := &http.Server{Handler: p.Handler()}
	if err := p.Apply(&config.Config{Backends: backends}); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	stop = func(graceful bool) {
		if graceful {
			l.Close()
			p.Drain()
			srv.Shutdown(context.Background())
		}
		srv.Close()
		p.Close()
	}
	t.Cleanup(func() { stop(false) })
	return stop
}

// pipes are a client on the pipes of a bridge that reads frame by frame.
type pipes struct {
	t    *testing.T
	b    *bridged
	out  *bufio.Reader
	seen []string
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}`

func (p *pipes) send(id int, method, params string) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.b.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s%s}}`+"\n", id, method, params, modernMeta); err != nil {
		p.t.Fatal(err)
	}
}

// until reads frames up to the one for which want returns true.
func (p *pipes) until(wanted ...string) string {
	p.t.Helper()
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			p.t.Fatalf("%v after %q; %s", err, p.seen, p.b.said.String())
		}
		p.seen = append(p.seen, strings.TrimSpace(line))
		all := true
		for _, w := range wanted {
			all = all && strings.Contains(line, w)
		}
		if all {
			return line
		}
	}
}

// call returns the response to a request, without the notifications before it.
func (p *pipes) call(id int, method, params string) string {
	p.t.Helper()
	p.send(id, method, params)
	return p.until(fmt.Sprintf(`"id":%d`, id))
}

// TestModernClientOverARestart: a call has the headers that its tool declares, whether the client has listed or not, and
// also when the declaration has changed after a restart. The client's subscription survives the restart,
// whether the endpoint ended the stream or it broke, with one acknowledgement and with list-changed notifications.
func TestModernClientOverARestart(t *testing.T) {
	for name, graceful := range map[string]bool{"ended": true, "cut": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			growing := config.Backend{Name: "g", URL: backendtest.HTTP(t, backendtest.New("2026-07-28"), false)}
			first, second := regional(t, "Region"), regional(t, "Zone")
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			addr := l.Addr().String()
			stop := bridgeServe(t, l, config.Backend{Name: "b", URL: first}, growing)
			b := start(t, "http://"+addr+"/mcp", nil)
			c := &pipes{t: t, b: b, out: bufio.NewReader(b.out)}
			where := func(id int, want string) {
				t.Helper()
				if got := c.call(id, "tools/call", `"name":"b_where","arguments":{"in":{"r":"é"}},`); !strings.Contains(got, want) {
					t.Errorf("b_where: %s, want %s", got, want)
				}
			}
			where(1, `Region==?base64?w6k=?=`)
			c.call(2, "tools/list", "")
			where(3, `Region==?base64?w6k=?=`)
			c.send(4, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://static"]},`)
			c.until("notifications/subscriptions/acknowledged")

			stop(graceful)
			ctx, cancel := context.WithTimeout(t.Context(), bridgeTime)
			defer cancel()
			if l, err = rig.ListenAgain(ctx, addr); err != nil {
				t.Fatal(err)
			}
			bridgeServe(t, l, config.Backend{Name: "b", URL: second}, growing)
			c.until("notifications/tools/list_changed", `"io.modelcontextprotocol/subscriptionId":4`)
			c.until("notifications/resources/updated", "test://static", `"io.modelcontextprotocol/subscriptionId":4`)
			where(5, `Zone==?base64?w6k=?=`)
			if err := rig.Poll(ctx, "an update", func() (bool, error) {
				c.call(6, "tools/call", `"name":"g_touch","arguments":{},`) // the endpoint may not follow its backend yet
				return strings.Count(strings.Join(c.seen, "\n"), "notifications/resources/updated") > 1, nil
			}); err != nil {
				t.Error(err)
			}
			fmt.Fprintln(b.in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
			c.call(7, "tools/list", "")
			for _, line := range c.seen {
				if string(jsonscan.Get([]byte(line), "id")) == "4" {
					t.Errorf("an answer to the request that was cancelled: %s", line)
				}
			}
			if n := strings.Count(strings.Join(c.seen, "\n"), "acknowledged"); n != 1 {
				t.Errorf("%d acknowledgements: %q", n, c.seen)
			}
		})
	}
}

// TestAnEndpointWithoutListeners: with an endpoint that ends every stream at once there are three attempts, and then the client
// gets the response; so it does from one that refuses the subscription after a restart.
func TestAnEndpointWithoutListeners(t *testing.T) {
	const acknowledged = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}`
	for _, tt := range []struct {
		name   string
		later  func(x *backendtest.Exchange)
		asked  int32
		answer string
	}{
		{"ends", nil, 3, `"result":{"resultType":"complete"}`},
		{"is gone", func(x *backendtest.Exchange) { http.Error(x, "gone", http.StatusNotFound) }, 2, `"result":{"resultType":"complete"}`},
		{"refuses", func(x *backendtest.Exchange) {
			x.Raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no more"}}`, x.Message.ID))
		}, 2, `"error":{"code":-32601,"message":"no more"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			raw := &backendtest.Raw{Modern: true, Handle: func(x *backendtest.Exchange) {
				if asked.Add(1) > 1 && tt.later != nil {
					tt.later(x)
					return
				}
				x.Event("", acknowledged)
				x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"}}`, x.Message.ID))
			}}
			b := start(t, raw.Start(t), nil)
			c := &pipes{t: t, b: b, out: bufio.NewReader(b.out)}
			if got := c.call(4, "subscriptions/listen", `"notifications":{},`); !strings.Contains(got, tt.answer) || asked.Load() != tt.asked {
				t.Errorf("%s after %d requests, want %s after %d", got, asked.Load(), tt.answer, tt.asked)
			}
		})
	}
}
