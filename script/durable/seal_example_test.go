package durable_test

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// A text is sealed for a purpose and a context, and opened for the same ones only. The ring seals with its first key;
// a key that is replaced stays in the ring for as long as texts that it has sealed are to be opened.
func Example_seal() {
	key := func(id string, fill byte) durable.Key {
		return durable.Key{ID: id, Secret: bytes.Repeat([]byte{fill}, 32)} // in use: 32 random bytes
	}
	ring, err := durable.NewSeal([]durable.Key{key("2025", 1)})
	if err != nil {
		fmt.Println(err)
		return
	}
	sealed := ring.Encrypt(durable.Rows, "runs|7|result", []byte(`{"paid": true}`))

	text, err := ring.Open(durable.Rows, "runs|7|result", sealed)
	fmt.Printf("%s %v\n", text, err)
	_, err = ring.Open(durable.Rows, "runs|8|result", sealed) // copied to the row of another run
	fmt.Println(errors.Is(err, durable.ErrForged))

	if err := ring.Replace([]durable.Key{key("2026", 2), key("2025", 1)}); err != nil {
		fmt.Println(err)
		return
	}
	_, err = ring.Open(durable.Rows, "runs|7|result", sealed)
	fmt.Println(durable.KeyOf(sealed), ring.First(), err)

	if err := ring.Replace([]durable.Key{key("2026", 2)}); err != nil {
		fmt.Println(err)
		return
	}
	_, err = ring.Open(durable.Rows, "runs|7|result", sealed)
	fmt.Println(err)
	// Output:
	// {"paid": true} <nil>
	// true
	// 2025 2026 <nil>
	// is sealed by the key "2025", which is not configured
}
