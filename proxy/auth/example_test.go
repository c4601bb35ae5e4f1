package auth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/auth"
)

// A token of the tokens file authenticates a principal with the token's name.
func ExampleAuthenticator_Authenticate() {
	dir, err := os.MkdirTemp("", "tokens")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "tokens.yaml")
	token, err := auth.NewToken(file, auth.Token{Name: "ci", Groups: []string{"robots"}})
	if err != nil {
		panic(err)
	}

	a, err := auth.New(config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}}, auth.Options{})
	if err != nil {
		panic(err)
	}
	defer a.Close()
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	_, err = a.Authenticate(r)
	fmt.Println(err)
	r.Header.Set("Authorization", "Bearer "+token)
	who, err := a.Authenticate(r)
	fmt.Println(who.Subject, who.Groups, err)
	// Output:
	// authentication required
	// ci [robots] <nil>
}
