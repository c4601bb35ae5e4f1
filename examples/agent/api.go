package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// api is a chat API over HTTP.
type api struct {
	url    string // of the API, with its path
	header http.Header
	client http.Client
	model  string
}

const (
	maxAnswer = 16 << 20 // bytes of a response of an API
	tries     = 4        // attempts of one request
)

func newModel(style, base, name, key string) (model, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("--api: want an http or https URL, have %q", base)
	}
	if name == "" {
		return nil, errors.New("--model: want the name of a model")
	}
	a := &api{model: name, header: http.Header{"Content-Type": {"application/json"}}, client: http.Client{Timeout: 5 * time.Minute}}
	switch style {
	case "openai":
		a.url = strings.TrimRight(base, "/") + "/chat/completions"
		if key != "" {
			a.header.Set("Authorization", "Bearer "+key)
		}
		return &openAI{a}, nil
	case "anthropic":
		a.url = strings.TrimRight(base, "/") + "/messages"
		a.header.Set("Anthropic-Version", "2023-06-01")
		if key != "" {
			a.header.Set("X-Api-Key", key)
		}
		return &anthropic{a}, nil
	}
	return nil, fmt.Errorf("--style: want openai or anthropic, have %q", style)
}

// post sends a request and decodes the response. It retries a few times when the API asks for that (429, 5xx).
func (a *api) post(ctx context.Context, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		again, err := a.send(ctx, body, answer)
		if err == nil || again == 0 || try == tries {
			return err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return err
		}
	}
}

// send sends a request once. again is the time after which to retry; 0 for no retry.
func (a *api) send(ctx context.Context, body []byte, answer any) (again time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header = a.header
	resp, err := a.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %w", a.url, err)
	case len(text) > maxAnswer:
		return 0, fmt.Errorf("%s: the response is longer than %d bytes", a.url, maxAnswer)
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return pause(resp.Header.Get("Retry-After")), refused(a.url, resp.Status, text)
	case resp.StatusCode != http.StatusOK:
		return 0, refused(a.url, resp.Status, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return 0, fmt.Errorf("%s: the response is not that of a chat API of this --style: %w", a.url, err)
	}
	return 0, nil
}

// pause is the backoff before a retry: that of the header Retry-After, within bounds.
func pause(header string) time.Duration {
	seconds, err := strconv.Atoi(header)
	if err != nil || seconds < 0 {
		return time.Second
	}
	return min(max(time.Duration(seconds)*time.Second, time.Millisecond), time.Minute)
}

// refused is the error of an API, with its message where the response has one.
func refused(url, status string, text []byte) error {
	var known struct{ Error struct{ Message string } }
	if json.Unmarshal(text, &known) == nil && known.Error.Message != "" {
		text = []byte(known.Error.Message)
	}
	return fmt.Errorf("%s: %s: %s", url, status, line(string(text)))
}

// object returns the arguments of a call as a JSON object, or the reason why the model's text is none.
func object(text []byte) (arguments json.RawMessage, malformed string) {
	if len(bytes.TrimSpace(text)) == 0 {
		return json.RawMessage("{}"), ""
	}
	var any map[string]json.RawMessage
	if err := json.Unmarshal(text, &any); err != nil {
		return nil, "the arguments are not a JSON object: " + err.Error()
	}
	return json.RawMessage(text), ""
}
