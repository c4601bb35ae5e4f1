package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/internal/secret"
)

const value = `s3cr3t/"Va+lue"==ü`

func using(values ...string) *secret.Redactor {
	r := &secret.Redactor{}
	r.Use(values)
	return r
}

func TestASecretIsHiddenInEveryForm(t *testing.T) {
	r := using(value)
	quoted, _ := json.Marshal(value)
	for name, form := range map[string]string{
		"plain": value, "query": url.QueryEscape(value), "path": url.PathEscape(value),
		"json": string(quoted), "go": strconv.Quote(value), "small escapes": strings.NewReplacer("%2F", "%2f", "%2B", "%2b", "%3D", "%3d", "%C3", "%c3", "%BC", "%bc").Replace(url.QueryEscape(value)),
	} {
		if got := r.Text("token " + form + " is bad"); strings.Contains(got, "s3cr3t") || !strings.Contains(got, "***") || !strings.HasSuffix(got, " is bad") {
			t.Errorf("%s: Text(%q) = %q", name, form, got)
		}
	}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
		for _, around := range []string{"", "u", "us", "user:", "user:x"} {
			form := e.EncodeToString([]byte(around + value + around))
			got := r.Text("Basic " + form)
			if !strings.Contains(got, "***") || len(got) > len("Basic ***")+2*(len(around)+5) {
				t.Errorf("Text(Basic base64(%q + the value)) = %q", around, got)
			}
		}
	}
}

// Secrets are hidden in any layers of escapes, and the text around them is unchanged.
func TestASecretIsHiddenWhateverItsEscapes(t *testing.T) {
	const value = `sk-Abc/DEF+ghij==K"01`
	r := using(value)
	var percent, unicode strings.Builder
	for _, b := range []byte(value) {
		fmt.Fprintf(&percent, "%%%02x", b)
		fmt.Fprintf(&unicode, `\u%04X`, b)
	}
	for name, form := range map[string]string{
		"a slash as it is":       strings.ReplaceAll(url.QueryEscape(value), "%2F", "/"),
		"small and large digits": strings.Replace(url.QueryEscape(value), "%3D", "%3d", 1),
		"every byte":             percent.String(), "every character": unicode.String(),
		"PHP":                  `sk-Abc\/DEF+ghij==K\"01`,
		"a URL in a URL":       url.QueryEscape("http://x/?k=" + url.QueryEscape(value)),
		"PHP in JSON":          `sk-Abc\\\/DEF+ghij==K\\\"01`,
		"base64 in a URL":      url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(value))),
		"a query, not escaped": strings.ReplaceAll(value, "+", " "),
	} {
		text := `100% of \d and %zz: ` + form + ` 5% \`
		got := r.Text(text)
		if strings.Contains(got, "ghij") || !strings.Contains(got, "***") || !strings.HasPrefix(got, `100% of \d and %zz: `) || !strings.HasSuffix(got, ` 5% \`) {
			t.Errorf("%s: Text(%q) = %q", name, text, got)
		}
	}
	for _, text := range []string{`%`, `\`, `\u`, `\u00`, `%4`, `\x4`, `C:\\dir\new %41 \u00e9 and no more`} {
		if got := r.Text(text); got != text {
			t.Errorf("Text(%q) = %q", text, got)
		}
	}
}

func TestTextsAreHiddenWhereverTheyMeet(t *testing.T) {
	r := using("Bearer abcdefgh", "abcdefgh", "fghijklm", "short", "line one of a key\nline two of a key\n")
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"nothing here", "nothing here"},
		{"abcdefgh", "***"},
		{"Bearer abcdefgh!", "***!"},
		{"xabcdefghabcdefghx", "x******x"},
		{"abcdefghijklm", "***"},
		{"a short one", "a short one"},
		{"abcdefg", "abcdefg"},
		{"> line two of a key", "> ***"},
	} {
		if got := r.Text(tt.text); got != tt.want {
			t.Errorf("Text(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestJSONIsHiddenWhateverItsEscapes(t *testing.T) {
	r := using("s3cr3t-value", "123456789")
	for _, tt := range []struct{ raw, want string }{
		{`{"a":"s3cr3t-value", "b":[1,true]}`, `{"a":"***", "b":[1,true]}`},
		{`{"s3cr3t-value":"\u0073\u0033cr3t-value \"x\""}`, `{"***":"*** \"x\""}`},
		{`{"n":123456789,"m":12345678}`, `{"n":"***","m":12345678}`},
		{`"cut s3cr3t-value`, `"cut ***"`},
		{`{"a":"b"}`, `{"a":"b"}`},
	} {
		if got := string(r.JSON([]byte(tt.raw))); got != tt.want {
			t.Errorf("JSON(%s) = %s, want %s", tt.raw, got, tt.want)
		}
	}
}

func TestASecretInTwoPiecesIsHidden(t *testing.T) {
	r := using("s3cr3t-value")
	text := strings.Repeat("x", 50) + "s3cr3t-value" + strings.Repeat("y", 50)
	for at := range text {
		ready, rest := r.Pieces(text[:at])
		more, end := r.Pieces(rest + text[at:])
		if got, want := ready+more+end, strings.Replace(text, "s3cr3t-value", "***", 1); got != want {
			t.Fatalf("cut at %d: %q, want %q", at, got, want)
		}
	}
}

func TestNamedSecrets(t *testing.T) {
	r := &secret.Redactor{}
	r.UseNamed([]string{"first-value", "a literal one"}, map[string]string{"first-value": "TOKEN", "short": "S"})
	r.UseNamed([]string{"second-value", "a literal one"}, map[string]string{"second-value": "TOKEN_2"})
	if got, want := r.Text("first-value, second-value, a literal one, c2Vjb25kLXZhbHVl, short"), "***TOKEN***, ***TOKEN_2***, ***, ***TOKEN_2***, short"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFormerSecretsStayHiddenForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := using("the first one")
		r.Use([]string{"the second one"})
		time.Sleep(59 * time.Minute)
		r.Use([]string{"the third one"})
		const all = "the first one, the second one, the third one"
		if got := r.Text(all); got != "***, ***, ***" {
			t.Errorf("within the hour: %q", got)
		}
		time.Sleep(2 * time.Minute)
		r.Use([]string{"the third one"})
		if got := r.Text(all); got != "the first one, ***, ***" {
			t.Errorf("after the hour: %q", got)
		}
	})
}

func TestNilHidesNothing(t *testing.T) {
	var r *secret.Redactor
	ready, rest := r.Pieces("text")
	if got := r.Text("text") + string(r.JSON([]byte(`"text"`))) + ready + rest; got != `text"text"text` {
		t.Errorf("got %q", got)
	}
}

func TestLogsAreClean(t *testing.T) {
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b bytes.Buffer
		log := slog.New(secret.Handler(handler(&b), using(value)))
		log.With("with", value).WithGroup("g").Info("message "+value, "text", "x"+value, "err", fmt.Errorf("no: %w", errors.New(value)),
			"raw", json.RawMessage(`"`+value), "list", []string{value}, slog.Group("in", "a", value), "n", 7, "bytes", []byte(value))
		if out := b.String(); strings.Contains(out, "s3cr3t") || strings.Count(out, "***") != 8 || !strings.Contains(out, "7") {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func TestWhatIsASecret(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        bool
	}{
		{"GITHUB_TOKEN", "x", true}, {"X-Api-Key", "x", true}, {"apikey", "x", true}, {"DB_PASSWORD", "x", true}, {"PGPASSWORD", "x", true}, {"Authorization", "x", true},
		{"key", "x", true}, {"KEYBOARD", "x", false}, {"MONKEY", "x", false}, {"LOG_LEVEL", "debug", false}, {"NODE_ENV", "production", false},
		{"X", "ghp_abcdefghijkl", true}, {"X", "sk-proj-abc", true}, {"X", "hK3jf9sLq0ZxV8nM2bT7", true},
		{"X", "/usr/local/share/vmcp1/data", false}, {"X", "https://example.com/a1", false}, {"X", "aaaaaaaaaaaaaaaaaaaaaaa1", false}, {"X", "a-perfectly-normal-name", false},
		{"X", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi", true},
	} {
		if got := secret.Named(tt.name) || secret.Looks(tt.value); got != tt.want {
			t.Errorf("%s=%s: %v, want %v", tt.name, tt.value, got, tt.want)
		}
	}
	got := secret.InURL("https://u:passw0rd@h/api/hK3jf9sLq0ZxV8nM2bT7/mcp?api_key=abcdef&v=2025-11-25")
	if fmt.Sprint(got) != "[passw0rd hK3jf9sLq0ZxV8nM2bT7 abcdef]" {
		t.Errorf("InURL = %q", got)
	}
}
