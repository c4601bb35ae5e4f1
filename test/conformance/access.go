package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/auth/authtest"
)

// access returns a part of a configuration that requires a credential, and the credential.
type access func(*harness) (config, token string, err error)

func staticToken(h *harness) (config, token string, err error) {
	file := filepath.Join(h.work, "tokens.yaml")
	token, err = auth.NewToken(file, auth.Token{Name: "suite"})
	return fmt.Sprintf("incomingAuth: {type: tokens, tokens: {file: %q}}\n", file), token, err
}

// signedToken starts an issuer, which runs until the end of this program.
func signedToken(*harness) (config, token string, err error) {
	issuer, err := authtest.Start()
	if err != nil {
		return "", "", err
	}
	const audience = "https://mcp.example.com/mcp"
	token, err = authtest.Signed(issuer.Key(), issuer.Claims(audience, nil), nil)
	return fmt.Sprintf("incomingAuth: {type: oidc, oidc: {issuer: %q, audience: %q, insecureAllowHttp: true, jwksAllowPrivateIp: true}}\n", issuer.URL, audience), token, err
}

// refusesStrangers checks that a proxy refuses a request without a token.
func refusesStrangers(ctx context.Context, addr string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/mcp", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusUnauthorized {
		return fmt.Errorf("without a token: %s, want 401", resp.Status)
	}
	return nil
}

// addToken is a module that the suites load first, because they have no option for a header. Node
// publishes each request of fetch and of node:http on a channel before it is sent.
const addToken = `import { subscribe } from "node:diagnostics_channel";
const token = "Bearer " + process.env.VMCP_TEST_TOKEN;
subscribe("undici:request:create", ({ request }) => request.addHeader("authorization", token));
subscribe("http.client.request.created", ({ request }) => request.setHeader("authorization", token));
`

// withToken is the environment in which a suite sends a token with every request.
func (h *harness) withToken(token string) ([]string, error) {
	file := filepath.Join(h.work, "token.mjs")
	if err := os.WriteFile(file, []byte(addToken), 0o644); err != nil {
		return nil, err
	}
	return []string{"NODE_OPTIONS=--import=" + file, "VMCP_TEST_TOKEN=" + token}, nil
}
