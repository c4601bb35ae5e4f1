package operate

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// This part of the package has the commands that show the state of a running endpoint: vmcp status, logs, describe and doctor. They
// read it from the API below /api/v1, which never contains the value of a variable.

// maxDocument bounds a response of an endpoint, in bytes.
const maxDocument = 64 << 20

// Env is what the commands need of the program that they are part of.
type Env struct {
	Out         io.Writer
	DefaultFile string
	Version     string
	// Tell writes a message for a person; JSON writes a result; Output adds --output to a command.
	Tell   func(format string, args ...any)
	JSON   func(v any) error
	Output func(*cobra.Command) *string
	// Cell and Text escape text of others for one line and for several. Line is Cell for output that may be shown on a terminal
	// later, wherever it is written now.
	Cell, Text, Line func(string) string
	// Load reads a configuration.
	Load func(file string) (*config.Config, error)
	// Memory returns what an endpoint can need with limits.totalMemory, and what this process may have, in bytes.
	Memory func(total int64) (need, may int64)
	// Found is returned when a problem has been reported already: exit code 1.
	Found error
}

// Commands returns status, logs, describe and doctor.
func Commands(e Env) []*cobra.Command {
	return []*cobra.Command{e.status(), e.logs(), e.describe(), e.doctor()}
}

// flags are the flags that name an endpoint.
type flags struct {
	url, config, tokenFile, caFile string

	usual string // the default of config
	// elsewhere reports that the user's endpoint is asked, since nothing listens where the default configuration says; if it is
	// nil, the user's endpoint is not asked.
	elsewhere func(format string, args ...any)
}

func (f *flags) register(c *cobra.Command, e Env) {
	c.Flags().StringVar(&f.url, "url", "", "the endpoint, or its port for operators (default the address of the configuration, else the one in ~/.vmcp/server.json, else "+cli.DefaultURL+")")
	c.Flags().StringVar(&f.config, "config", e.DefaultFile, "the configuration `file` with the address of the endpoint")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "a file with the bearer token for operators (default: the token in VMCP_TOKEN, else admin.tokenFile)")
	c.Flags().StringVar(&f.caFile, "ca-file", "", "a file of CA certificates to trust for an https endpoint, in addition to the system's (default tls.cert of the configuration)")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	f.usual, f.elsewhere = e.DefaultFile, e.Tell
}

// client is a client of the API of one endpoint.
type client struct {
	base  url.URL
	token string
	http  http.Client
	moved bool // the API is asked at the port for operators
}

// open returns a client of the endpoint, at its port for operators if it has one.
func (f *flags) open() (*client, error) {
	at := cli.FindEndpoint(cli.Flags{URL: f.url, TokenFile: f.tokenFile, CAFile: f.caFile, Config: f.config, Running: f.elsewhere != nil && f.config == f.usual})
	if at.Instead != "" {
		f.elsewhere("nothing is listening at %s, as %s would have it; this is %s", at.Instead, f.config, at.URL)
	}
	where := at.URL
	if at.AdminURL != "" {
		where = at.AdminURL
	}
	u, err := url.Parse(where)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, cli.Error("--url: want a URL such as " + cli.DefaultURL)
	}
	c := &client{base: url.URL{Scheme: u.Scheme, Host: u.Host}, moved: at.AdminURL != ""}
	if c.token, err = at.AdminToken(); err != nil {
		return nil, err
	}
	if c.http.Transport, err = at.Transport(); err != nil {
		return nil, err
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// public returns a client of the endpoint's port for clients.
func (f *flags) public() (*client, error) {
	at := cli.FindEndpoint(cli.Flags{URL: f.url, TokenFile: f.tokenFile, CAFile: f.caFile, Config: f.config})
	u, err := url.Parse(at.URL)
	if err != nil {
		return nil, err
	}
	c := &client{base: url.URL{Scheme: u.Scheme, Host: u.Host}}
	c.http.Transport, err = at.Transport()
	return c, err
}

// isOurs reports whether a vmcp answers at /readyz.
func (c *client) isOurs(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.String()+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var is struct{ Ready, Draining *bool }
	return json.NewDecoder(io.LimitReader(resp.Body, maxDocument)).Decode(&is) == nil && is.Ready != nil && is.Draining != nil
}

// segment escapes a name as one segment of a path below /api/v1, also where it contains slashes or is only dots.
func segment(name string) string {
	if strings.Trim(name, ".") == "" {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// get requests a path below /api/v1, of escaped segments. A status other than 200 is an error.
func (c *client) get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	u := c.base
	u.RawPath, u.RawQuery = "/api/v1/"+path, query.Encode()
	var err error
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.explain(err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, c.refused(resp)
	}
	return resp, nil
}

// fetch requests a JSON document.
func (c *client) fetch(ctx context.Context, path string, document any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	resp, err := c.get(ctx, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxDocument)).Decode(document); err != nil {
		return fmt.Errorf("%s: the response is not from vmcp: %w", c.base.String(), err)
	}
	return nil
}

// explain adds a hint to the error of an endpoint that cannot be reached.
func (c *client) explain(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return cli.WithHint(fmt.Errorf("%s: nothing is listening there", c.base.String()), `start it with "vmcp serve", or give its URL with --url`)
	}
	err = fmt.Errorf("%s: %w", c.base.String(), err)
	if _, bad := errors.AsType[*tls.CertificateVerificationError](err); bad {
		return cli.WithHint(err, "name a file with the certificate, or with its CA certificate, in --ca-file")
	}
	return err
}

// refused is the error for a response with another status than 200.
func (c *client) refused(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what could be read is enough for a message
	var f status.Failure
	if json.Unmarshal(text, &f) == nil && f.Error != "" {
		if f.Hint != "" {
			return cli.WithHint(errors.New(f.Error), f.Hint)
		}
		return errors.New(f.Error)
	}
	message, _, page := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if message == "" || page || strings.HasPrefix(message, "<") { // the page of another server
		message = resp.Status
	}
	message = display.ClipLine(message, 500)
	err := fmt.Errorf("%s: %s", c.base.String(), message)
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return cli.WithHint(err, "name a file with the token in --token-file, or put the token in VMCP_TOKEN")
	case resp.StatusCode == http.StatusNotFound && !c.moved:
		return cli.WithHint(err, "this port is not the port for operators, or another version of vmcp: give the URL of the port for operators with --url")
	}
	return err
}

// each calls f with each value in a stream of JSON, until it ends.
func each[T any](r io.Reader, f func(T) error) error {
	d := json.NewDecoder(r)
	for {
		var v T
		if err := d.Decode(&v); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := f(v); err != nil {
			return err
		}
	}
}
