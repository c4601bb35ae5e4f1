package sqlstore

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
)

// A chain is the data that the head of a run authenticates: the tags of its entries, in their order, and their number.
type chain struct {
	link  []byte            // hash over the tags of the entries with an answer, in order
	begun map[string][]byte // key -> tag of the others
	count int               // of both
}

// text is the encoding of the chain that the head signs.
func (c *chain) text() []byte {
	out := binary.BigEndian.AppendUint64(nil, uint64(c.count))
	out = append(out, c.link...)
	for _, key := range slices.Sorted(maps.Keys(c.begun)) {
		out = append(append(append(out, key...), 0), c.begun[key]...)
	}
	return out
}

// begin adds an entry without an answer, or replaces it.
func (c *chain) begin(key string, tag []byte) {
	if c.begun == nil {
		c.begun = map[string][]byte{}
	}
	if _, ok := c.begun[key]; !ok {
		c.count++
	}
	c.begun[key] = tag
}

// release removes an entry without an answer.
func (c *chain) release(key string) {
	if _, ok := c.begun[key]; ok {
		delete(c.begun, key)
		c.count--
	}
}

// record adds an entry with its answer at the end.
func (c *chain) record(key string, tag []byte) {
	c.release(key)
	c.count++
	h := sha256.New()
	h.Write(c.link)
	h.Write(tag)
	c.link = h.Sum(nil)
}
