package durable_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/vmcp-dev/vmcp/script/durable"
)

func key(id string, fill byte) durable.Key {
	return durable.Key{ID: id, Secret: bytes.Repeat([]byte{fill}, 32)}
}

func ring(t *testing.T, keys ...durable.Key) *durable.Ring {
	t.Helper()
	r, err := durable.NewSeal(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// forms are the two ways to seal.
var forms = map[string]func(*durable.Ring, string, string, []byte) []byte{"encrypt": (*durable.Ring).Encrypt, "sign": (*durable.Ring).Sign}

func TestOpen(t *testing.T) {
	r := ring(t, key("a", 1))
	for name, form := range forms {
		for _, text := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("long"), 1<<16)} {
			sealed := form(r, durable.Rows, "run|0", text)
			if got, err := r.Open(durable.Rows, "run|0", sealed); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%s: Open: %.20q, %v, want %.20q", name, got, err, text)
			}
			if durable.KeyOf(sealed) != "a" || len(durable.Tag(sealed)) != 16 {
				t.Errorf("%s: key %q and tag %x", name, durable.KeyOf(sealed), durable.Tag(sealed))
			}
			for _, wrong := range []struct{ purpose, context string }{{durable.SealState, "run|0"}, {durable.Rows, "run|1"}, {durable.Rows + "run", "|0"}} {
				if _, err := r.Open(wrong.purpose, wrong.context, sealed); !errors.Is(err, durable.ErrForged) {
					t.Errorf("%s: Open for %v: %v, want ErrDamaged", name, wrong, err)
				}
			}
		}
	}
}

// A text with one flipped bit or a shorter length does not open.
func TestDamage(t *testing.T) {
	r := ring(t, key("a", 1), key("b", 2))
	text := []byte(`{"amount": 7}`)
	for name, form := range forms {
		sealed := form(r, durable.Rows, "run|0", text)
		for bit := range 8 * len(sealed) {
			flipped := bytes.Clone(sealed)
			flipped[bit/8] ^= 1 << (bit % 8)
			if got, err := r.Open(durable.Rows, "run|0", flipped); err == nil {
				t.Fatalf("%s: with bit %d flipped, Open returns %q", name, bit, got)
			}
		}
		for n := range sealed {
			if got, err := r.Open(durable.Rows, "run|0", sealed[:n]); err == nil {
				t.Fatalf("%s: cut to %d bytes, Open returns %q", name, n, got)
			}
		}
	}
}

func TestRotation(t *testing.T) {
	r := ring(t, key("old", 1))
	before := r.Encrypt(durable.Rows, "", []byte("before"))
	if err := r.Replace([]durable.Key{key("new", 2), key("old", 1)}); err != nil {
		t.Fatal(err)
	}
	after := r.Encrypt(durable.Rows, "", []byte("after"))
	if durable.KeyOf(after) != "new" {
		t.Errorf("sealed by %q, want the first key", durable.KeyOf(after))
	}
	for _, sealed := range [][]byte{before, after} {
		if _, err := r.Open(durable.Rows, "", sealed); err != nil {
			t.Error(err)
		}
	}
	if err := r.Replace([]durable.Key{key("new", 2)}); err != nil {
		t.Fatal(err)
	}
	var unknown *durable.UnknownKeyError
	if _, err := r.Open(durable.Rows, "", before); !errors.As(err, &unknown) || unknown.ID != "old" {
		t.Errorf("Open without the key: %v", err)
	}
	if err := r.Replace([]durable.Key{key("old", 3)}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(durable.Rows, "", before); !errors.Is(err, durable.ErrForged) {
		t.Errorf("Open with another key of the same name: %v, want ErrDamaged", err)
	}
	for _, bad := range [][]durable.Key{nil, {{ID: "short", Secret: []byte("x")}}, {{ID: "", Secret: make([]byte, 32)}}} {
		if err := r.Replace(bad); err == nil {
			t.Errorf("Replace took %v", bad)
		}
	}
}
