package credentials

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
)

// row is a table with one text, whose writes fail while down is set.
type row struct {
	text []byte
	down bool
}

var errDown = errors.New("the database is down")

func (r *row) Token(context.Context, string, string) ([]byte, error) { return r.text, nil }

func (r *row) PutToken(_ context.Context, _, _ string, text []byte) error {
	if r.down {
		return errDown
	}
	r.text = text
	return nil
}

func (r *row) RenewToken(_ context.Context, _, _ string, f func([]byte) ([]byte, error)) (bool, error) {
	next, err := f(r.text)
	switch {
	case err != nil || next == nil:
		return true, err
	case r.down:
		return true, errDown
	}
	r.text = next
	return true, nil
}

func (r *row) RemoveTokens(context.Context, string, *string) (int, error) { return 0, nil }

// The next renewal uses a renewed grant that could not be written, even if the row can be read again: the refresh
// token in the row is used up.
func TestRenewBeginsWithTheUnsavedGrant(t *testing.T) {
	r := &row{}
	s := Share(r)
	if err := s.Put(t.Context(), "b", "", &Grant{Refresh: "1"}); err != nil {
		t.Fatal(err)
	}
	renew := func(want, next string) {
		t.Helper()
		err := s.renew(t.Context(), "b", "", func(g *Grant) (*Grant, error) {
			if g.Refresh != want {
				t.Errorf("renewed with refresh token %s, want %s", g.Refresh, want)
			}
			return &Grant{Refresh: next}, nil
		})
		if err != nil {
			t.Errorf("renew to %s: %v", next, err)
		}
	}
	r.down = true
	renew("1", "2")
	renew("2", "3")
	r.down = false
	renew("3", "4")
	if g, err := s.Find(t.Context(), "b", ""); err != nil || g.Refresh != "4" {
		t.Errorf("Find: %+v, %v, want refresh token 4", g, err)
	}
	if len(s.unsaved.grants) != 0 {
		t.Errorf("%d grants wait to be written, want none", len(s.unsaved.grants))
	}
}

// A file that cannot be written loses no renewed grant either. What another process stores meanwhile holds.
func TestUnsavedGrantsOfAFile(t *testing.T) {
	for _, other := range []string{"", "login", "logout"} {
		t.Run(other, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			cfg := config.TokenStore{File: filepath.Join(dir, "tokens.json"), Key: base64.StdEncoding.EncodeToString(make([]byte, 32))}
			s, err := OpenStore(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Put(t.Context(), "b", "", &Grant{Refresh: "1"}); err != nil {
				t.Fatal(err)
			}
			away := dir + ".away"
			renew := func(want, next string) {
				t.Helper()
				err := s.renew(t.Context(), "b", "", func(g *Grant) (*Grant, error) {
					if g.Refresh != want {
						t.Errorf("renewed with refresh token %s, want %s", g.Refresh, want)
					}
					if err := os.Rename(dir, away); err != nil { // nothing can be written from here on
						t.Fatal(err)
					}
					return &Grant{Refresh: next}, nil
				})
				if err != nil {
					t.Errorf("renew to %s: %v", next, err)
				}
				if err := os.Rename(away, dir); err != nil {
					t.Fatal(err)
				}
			}
			renew("1", "2")
			renew("2", "3")
			second, err := OpenStore(cfg)
			if err != nil {
				t.Fatal(err)
			}
			want := &Grant{Refresh: "3"}
			switch other {
			case "login":
				want = &Grant{Refresh: "new"}
				err = second.Put(t.Context(), "b", "", want)
			case "logout":
				want = nil
				_, err = second.Remove(t.Context(), "b", "")
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, from := range []*Store{s, second} { // the first one writes what waits
				if g, err := from.Find(t.Context(), "b", ""); err != nil || !reflect.DeepEqual(g, want) {
					t.Errorf("Find: %+v, %v, want %+v", g, err, want)
				}
			}
			if len(s.unsaved.grants) != 0 {
				t.Errorf("%d grants wait to be written, want none", len(s.unsaved.grants))
			}
		})
	}
}

// A login that another replica has stored is not replaced by a grant that waits to be written.
func TestUnsavedGrantsYieldToLogins(t *testing.T) {
	r := &row{}
	s, other := Share(r), Share(r)
	if err := s.Put(t.Context(), "b", "", &Grant{Refresh: "1"}); err != nil {
		t.Fatal(err)
	}
	r.down = true
	if err := s.renew(t.Context(), "b", "", func(*Grant) (*Grant, error) { return &Grant{Refresh: "2"}, nil }); err != nil {
		t.Fatal(err)
	}
	if g, err := s.Find(t.Context(), "b", ""); err != nil || g.Refresh != "2" {
		t.Errorf("Find while nothing can be written: %+v, %v", g, err)
	}
	r.down = false
	if err := other.Put(t.Context(), "b", "", &Grant{Refresh: "new"}); err != nil {
		t.Fatal(err)
	}
	for _, from := range []*Shared{s, other} {
		if g, err := from.Find(t.Context(), "b", ""); err != nil || g.Refresh != "new" {
			t.Errorf("Find after a login: %+v, %v", g, err)
		}
	}
}
