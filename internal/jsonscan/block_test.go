package jsonscan

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// structure is the bytes that a pass over blocks searches for, and some that differ from
// them in one bit.
const structure = `"\{}[] :,aB2` + "\x5a\x7a\x7c\x7f\xfb\xfd\xa2\xdc\x00\x02"

// TestVectorsAgreeWithWords compares the assembly with the Go code on random blocks, in
// which quotes, backslashes and brackets are rare or frequent.
func TestVectorsAgreeWithWords(t *testing.T) {
	if !vectors {
		t.Skip("this processor or build has none")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		text := make([]byte, random.IntN(6*blockSize))
		plain := random.IntN(40)
		for i := range text {
			if text[i] = 'x'; random.IntN(40) >= plain {
				text[i] = structure[random.IntN(len(structure))]
			}
		}
		start := blocks{inString: -uint64(random.IntN(2)), escaped: uint64(random.IntN(2)), depth: 1 + random.IntN(20)}
		if random.IntN(4) == 0 {
			start.depth = MaxDepth - random.IntN(30)
		}
		agree(t, start, text)
	}
}

// FuzzBlocks is the same with fuzzed texts.
func FuzzBlocks(f *testing.F) {
	f.Add([]byte(strings.Repeat(structure, 8)), true, false, uint(3))
	f.Add([]byte(strings.Repeat(`\`, 3*blockSize)), false, true, uint(MaxDepth-1))
	f.Fuzz(func(t *testing.T, text []byte, inString, escaped bool, depth uint) {
		start := blocks{depth: 1 + int(depth%MaxDepth)}
		if inString {
			start.inString = ^uint64(0)
		}
		if escaped {
			start.escaped = 1
		}
		agree(t, start, text)
	})
}

// agree compares the two passes, and continues after each block that they stop at.
func agree(t *testing.T, start blocks, text []byte) {
	words, fast := start, start
	for rest := text; len(rest) >= blockSize; {
		n, m := words.passWords(rest), fast.pass(rest)
		if n != m || words != fast {
			t.Fatalf("%q from %+v:\n%d bytes in words, %+v\n%d in vectors, %+v", text, start, n, words, m, fast)
		}
		if rest = rest[n:]; len(rest) < blockSize {
			return
		}
		if _, done, err := words.count(); done || err != nil {
			return
		}
		fast.count()
		rest = rest[blockSize:]
	}
}
