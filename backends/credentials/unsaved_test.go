package credentials

import (
	"context"
	"errors"
	"testing"
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
	if len(s.unsaved) != 0 {
		t.Errorf("%d grants wait to be written, want none", len(s.unsaved))
	}
}
