package access

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/auth/authtest"
	"github.com/vmcp-dev/vmcp/test/raw"
)

// invented is a token with a key id that does not exist.
func invented(t *testing.T, i *authtest.Issuer, n int) string {
	return authtest.Sign(t, authtest.WithID(i.Key(), fmt.Sprint("invented", n)), i.Claims(audience, nil), nil)
}

// Tokens with unknown key ids do not cause a request to the issuer each.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	issuer := authtest.NewIssuer(t)
	s := serve(t, oidc(issuer, ""))
	began := time.Now()
	var all sync.WaitGroup
	for n := range 200 {
		token := invented(t, issuer, n)
		all.Go(func() {
			resp, body := s.ask(raw.Modern, "", "Bearer "+token)
			if resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("an unknown key: %s %s", resp.Status, body)
			}
		})
	}
	all.Wait()
	if n, most := issuer.Fetches(), 4+int(time.Since(began)/(10*time.Second)); n > most {
		t.Errorf("200 unknown keys caused %d fetches in %v, want at most %d", n, time.Since(began), most)
	}
}

// While the issuer is down no token is refused as invalid, and vmcp starts.
func TestIssuerThatIsDownAtStart(t *testing.T) {
	t.Parallel()
	issuer := authtest.NewIssuer(t)
	issuer.SetDown(true)
	s := serve(t, oidc(issuer, ""))
	token := issuer.Token(t, audience, nil)
	resp, body := s.ask(raw.Modern, "", "Bearer "+token)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || resp.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("down at start: %s %v %s", resp.Status, resp.Header, body)
	}
	if resp, _ := s.ask(raw.Modern, ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token while it is down: %s", resp.Status)
	}
	if !testmode.Thorough() {
		return // what follows waits until keys are asked for again
	}
	issuer.SetDown(false)
	s.becomes("the issuer is up", token, http.StatusOK)
}

// Tokens of known keys are accepted while the issuer is down.
func TestIssuerThatGoesDown(t *testing.T) {
	t.Parallel()
	issuer := authtest.NewIssuer(t)
	s := serve(t, oidc(issuer, ", jwksRefresh: 1h"))
	token := issuer.Token(t, audience, nil)
	if status := s.status(token); status != http.StatusOK {
		t.Fatalf("a good token: %d", status)
	}
	issuer.SetDown(true)
	for name, token := range map[string]string{"a known token": token, "a new token of a known key": issuer.Token(t, audience, map[string]any{"sub": "bob"})} {
		if status := s.status(token); status != http.StatusOK {
			t.Errorf("%s while the issuer is down: %d", name, status)
		}
	}
	if !testmode.Thorough() {
		return
	}
	s.becomes("an unknown key while the issuer is down", invented(t, issuer, 1), http.StatusServiceUnavailable)
	issuer.SetDown(false)
	s.becomes("an unknown key once it is up", invented(t, issuer, 1), http.StatusUnauthorized)
}

// A new key is used soon, and tokens of a withdrawn one are refused, also those that were accepted before.
func TestRotatedKeys(t *testing.T) {
	testmode.NeedThorough(t)
	t.Parallel()
	issuer := authtest.NewIssuer(t)
	s := serve(t, oidc(issuer, ", jwksRefresh: 30s"))
	old := issuer.Token(t, audience, nil)
	if status := s.status(old); status != http.StatusOK {
		t.Fatalf("a good token: %d", status)
	}
	issuer.Rotate(t, false)
	s.becomes("a token of the new key", issuer.Token(t, audience, nil), http.StatusOK)
	if status := s.status(old); status != http.StatusOK {
		t.Errorf("a token of the former key, which is in the set: %d", status)
	}
	issuer.Rotate(t, true)
	s.becomes("a known token of a withdrawn key", old, http.StatusUnauthorized)
	s.becomes("a token of the only key", issuer.Token(t, audience, nil), http.StatusOK)
}

// Concurrent introspections of a token are one request to the issuer, which is repeated when the result has expired.
func TestIntrospectedTokens(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	t.Parallel()
	s := serve(t, oidc(issuer, fmt.Sprintf(", clientSecretEnv: VMCP_ACCESS_SECRET, introspectionUrl: %q, introspectionCache: 1s", issuer.URL+"/introspect")))
	issuer.Opaque("opaque-token-of-bob", map[string]any{"sub": "bob", "scope": "mcp:tools", "aud": audience, "exp": time.Now().Add(time.Hour).Unix()})
	issuer.Opaque("opaque-token-for-others", map[string]any{"sub": "bob", "aud": "https://other.example", "exp": time.Now().Add(time.Hour).Unix()})
	began := time.Now()
	var all sync.WaitGroup
	for range 22 {
		all.Go(func() {
			if resp, body := s.ask(raw.Modern, "", "Bearer opaque-token-of-bob"); resp.StatusCode != http.StatusOK {
				t.Errorf("%s %s", resp.Status, body)
			}
		})
	}
	all.Wait()
	if n, most := issuer.Questions(), 3+int(time.Since(began)/time.Second); n > most {
		t.Errorf("22 requests in %v caused %d questions, want at most %d", time.Since(began), n, most)
	}
	for _, bad := range []string{"opaque-token-for-others", "nobody-knows-this"} {
		if status := s.status(bad); status != http.StatusUnauthorized {
			t.Errorf("%s: %d", bad, status)
		}
	}
	issuer.Revoke("opaque-token-of-bob")
	s.becomes("a revoked token", "opaque-token-of-bob", http.StatusUnauthorized)
	issuer.SetDown(true)
	issuer.Opaque("opaque-token-of-eve", map[string]any{"sub": "eve", "aud": audience})
	if status := s.status("opaque-token-of-eve"); status != http.StatusServiceUnavailable {
		t.Errorf("introspection is down: %d", status)
	}
}

// Changes of the tokens file take effect without a restart.
func TestTokensFile(t *testing.T) {
	t.Parallel()
	file, config, token := tokenFile(t, "alice", "bob")
	s := serve(t, config)
	s.becomes("a token", token["alice"], http.StatusOK)
	carol, err := auth.NewToken(file, auth.Token{Name: "carol", Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	s.becomes("a new token", carol, http.StatusOK)
	if err := auth.RevokeToken(file, "bob"); err != nil {
		t.Fatal(err)
	}
	s.becomes("a revoked token", token["bob"], http.StatusUnauthorized)
	if testmode.Thorough() {
		short, err := auth.NewToken(file, auth.Token{Name: "short", Expires: time.Now().Add(20 * time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		s.becomes("a token with an end", short, http.StatusOK)
		s.becomes("a token that has expired", short, http.StatusUnauthorized)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, file, "tokens: [{name: eve, sha256: nonsense}]")
	s.logs("eve")
	if status := s.status(token["alice"]); status != http.StatusOK {
		t.Errorf("with a broken file: %d", status)
	}
	if !testmode.Thorough() {
		return // what follows waits twice more until the file is looked at
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	s.becomes("a token without its file", token["alice"], http.StatusUnauthorized)
	rewrite(t, file, string(good))
	s.becomes("a token whose file is back", token["alice"], http.StatusOK)
	if status := s.status(token["bob"]); status != http.StatusUnauthorized {
		t.Errorf("the revoked token, with the file back: %d", status)
	}
}
