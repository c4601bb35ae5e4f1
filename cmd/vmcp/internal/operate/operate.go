// Package operate is the commands that say how a running endpoint is: vmcp status, logs, describe and doctor. What
// they show comes from the API below /api/v1, and holds no value of a variable.
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

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/locate"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/usage"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/clip"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// maxDocument bounds a document that an endpoint answers with, in bytes.
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
	// Cell and Text show what others have written, in a line and in several. Line is Cell for what goes to a terminal
	// sooner or later, wherever it is written now.
	Cell, Text, Line func(string) string
	// Load reads a configuration.
	Load func(file string) (*config.Config, error)
	// Memory is what an endpoint can need with limits.totalMemory, and what this process may have.
	Memory func(total int64) (need, may int64)
	// Found is the error of a command that has said what is wrong.
	Found error
}

// Commands returns the commands.
func Commands(e Env) []*cobra.Command {
	return []*cobra.Command{e.status(), e.logs(), e.describe(), e.doctor()}
}

// flags say which endpoint is meant.
type flags struct{ url, config, tokenFile, caFile string }

func (f *flags) register(c *cobra.Command, e Env) {
	c.Flags().StringVar(&f.url, "url", "", "the endpoint, or its port for operators (default where the configuration listens, else the one that ~/.vmcp/server.json names, else "+locate.DefaultURL+")")
	c.Flags().StringVar(&f.config, "config", e.DefaultFile, "the configuration `file` that says where the endpoint listens")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "a file with the bearer token for operators (default: the token in VMCP_TOKEN, else admin.tokenFile)")
	c.Flags().StringVar(&f.caFile, "ca-file", "", "a file of certificates to trust for an https endpoint, beside the system's (default tls.cert of the configuration)")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
}

// client asks the API of one endpoint.
type client struct {
	base  url.URL
	token string
	http  http.Client
	moved bool // it has a port for operators, and that is asked
}

// open finds the endpoint.
func (f *flags) open() (*client, error) {
	at := locate.Find(locate.Flags{URL: f.url, TokenFile: f.tokenFile, CAFile: f.caFile, Config: f.config})
	where := at.URL
	if at.AdminURL != "" {
		where = at.AdminURL
	}
	u, err := url.Parse(where)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usage.Error("--url: want a URL such as " + locate.DefaultURL)
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

// public is the endpoint itself, where it has a port for operators, too.
func (f *flags) public() (*client, error) {
	at := locate.Find(locate.Flags{URL: f.url, TokenFile: f.tokenFile, CAFile: f.caFile, Config: f.config})
	u, err := url.Parse(at.URL)
	if err != nil {
		return nil, err
	}
	c := &client{base: url.URL{Scheme: u.Scheme, Host: u.Host}}
	c.http.Transport, err = at.Transport()
	return c, err
}

// isOurs reports whether an endpoint of some version answers, whatever it tells.
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

// segment is a name as one part of a path below /api/v1: with its slashes, and where it is no more than dots.
func segment(name string) string {
	if strings.Trim(name, ".") == "" {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// get asks for a path below /api/v1, of segments. Whatever is no success is an error.
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

// fetch reads a document.
func (c *client) fetch(ctx context.Context, path string, document any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	resp, err := c.get(ctx, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxDocument)).Decode(document); err != nil {
		return fmt.Errorf("%s: the answer is none of vmcp: %w", c.base.String(), err)
	}
	return nil
}

// explain adds what to do about an endpoint that cannot be reached.
func (c *client) explain(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return usage.WithHint(fmt.Errorf("%s: nothing is listening there", c.base.String()), `start it with "vmcp serve", or say with --url where it is`)
	}
	err = fmt.Errorf("%s: %w", c.base.String(), err)
	if _, bad := errors.AsType[*tls.CertificateVerificationError](err); bad {
		return usage.WithHint(err, "name a file with the certificate, or with that of who signed it, in --ca-file")
	}
	return err
}

// refused is what an answer says that is no success.
func (c *client) refused(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what came of it has to do
	var f status.Failure
	if json.Unmarshal(text, &f) == nil && f.Error != "" {
		if f.Hint != "" {
			return usage.WithHint(errors.New(f.Error), f.Hint)
		}
		return errors.New(f.Error)
	}
	message, _, page := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if message == "" || page || strings.HasPrefix(message, "<") { // what another server shows people
		message = resp.Status
	}
	message = clip.Line(message, 500)
	err := fmt.Errorf("%s: %s", c.base.String(), message)
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return usage.WithHint(err, "name a file with the token in --token-file, or put the token in VMCP_TOKEN")
	case resp.StatusCode == http.StatusNotFound && !c.moved:
		return usage.WithHint(err, "this port shows operators nothing, or it is no vmcp of this version: say with --url where the port for operators is")
	}
	return err
}

// each reads JSON texts, a line each, until there are no more.
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
