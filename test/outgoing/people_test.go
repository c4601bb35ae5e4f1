package outgoing_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/proxy/auth/authtest"
)

// personal is a server with a different tool and resource for each owner of a
// token.
type personal struct {
	owner func(token string) string

	mu  sync.Mutex
	all map[string]*mcp.Server // guarded by mu, by owner
}

func (p *personal) of(owner string) *mcp.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.all[owner]; s != nil {
		return s
	}
	yes := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	no := func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	s := mcp.NewServer(&mcp.Implementation{Name: "personal", Version: "1"}, &mcp.ServerOptions{SubscribeHandler: yes, UnsubscribeHandler: no})
	mcp.AddTool(s, &mcp.Tool{Name: "who"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		now := p.owner(strings.TrimPrefix(r.Extra.Header.Get("Authorization"), "Bearer "))
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: owner + " " + now}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "only_" + owner}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
	s.AddResource(&mcp.Resource{Name: "note", URI: "note://mine"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "note://mine", Text: "of " + owner}}}, nil
	})
	p.all[owner] = s
	return s
}

// bearer adds a token to requests.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultClient.Transport.RoundTrip(r) // see testmode
}

// Two principals use one backend concurrently, each with a session: neither uses the
// other's credential, session or connection, or gets the other's list, resource or notification.
func TestNothingIsSharedBetweenPrincipals(t *testing.T) {
	issuer, e := authtest.NewIssuer(t), newEndpoint(t)
	mine := &personal{all: map[string]*mcp.Server{}, owner: func(token string) string {
		if token == "list-only" {
			return "lister"
		}
		return e.owner(token)
	}}
	g := takesTokens(t, false, e)
	g.handler = mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		return mine.of(mine.owner(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
	}, nil)
	v := serve(t, exchanging(g.URL, issuer, e))
	names := []string{"alice", "bob"}
	notified := map[string]chan string{}
	sessions := map[string]*mcp.ClientSession{}
	for _, name := range names {
		notified[name] = make(chan string, 100)
		c := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			notified[name] <- r.Params.URI
		}})
		s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: v.url, HTTPClient: &http.Client{Transport: bearer(tokenOf(t, issuer, name))}}, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		sessions[name] = s
	}
	var all sync.WaitGroup
	for _, name := range names {
		for range 8 {
			all.Go(func() { useAs(t, sessions[name], name) })
		}
	}
	all.Wait()
	for i, name := range names {
		if err := sessions[name].Subscribe(t.Context(), &mcp.SubscribeParams{URI: "note://mine"}); err != nil {
			t.Fatal(err)
		}
		other := names[1-i]
		testkit.Eventually(t, "the list of "+name, func() bool {
			list, err := sessions[name].ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			own := false
			for _, tool := range list.Tools {
				own = own || tool.Name == "only_"+name
				if tool.Name == "only_"+other {
					t.Errorf("the list of %s has a tool of %s", name, other)
				}
			}
			return own
		})
	}
	for i, name := range names {
		if err := mine.of(name).ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: "note://mine"}); err != nil {
			t.Fatal(err)
		}
		<-notified[name]
		useAs(t, sessions[names[1-i]], names[1-i]) // pending notifications to the other have arrived
		if n := len(notified[names[1-i]]); n > 0 {
			t.Errorf("%s is notified of what %s has", names[1-i], name)
		}
	}
	onlyOneEach(t, g)
}

// useAs calls the tool and reads the resource of a principal.
func useAs(t *testing.T, s *mcp.ClientSession, name string) {
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "who"})
	if err != nil || len(result.Content) != 1 {
		t.Errorf("%s: %v, %v", name, result, err)
		return
	}
	if text := fmt.Sprint(result.Content[0].(*mcp.TextContent).Text); text != name+" "+name {
		t.Errorf("%s calls in a session with a token of %q", name, text)
	}
	note, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "note://mine"})
	if err != nil || note.Contents[0].Text != "of "+name {
		t.Errorf("%s reads %+v, %v", name, note, err)
	}
}
