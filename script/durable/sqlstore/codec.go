package sqlstore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// pack concatenates parts, each after its length plus one as a varint, or a 0 for nil, so that unpack
// returns the same bytes, and nil for nil.
func pack(parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p) + binary.MaxVarintLen64
	}
	out := make([]byte, 0, n)
	for _, p := range parts {
		if p == nil {
			out = append(out, 0)
			continue
		}
		out = append(binary.AppendUvarint(out, uint64(len(p))+1), p...)
	}
	return out
}

// unpack returns the parts that were packed; it is an error when there are less than n.
func unpack(b []byte, n int) ([][]byte, error) {
	var parts [][]byte
	for len(b) > 0 {
		size, used := binary.Uvarint(b)
		if used <= 0 || size > uint64(len(b)-used)+1 {
			return nil, fmt.Errorf("%w: a part has a wrong length", durable.ErrDamaged)
		}
		b = b[used:]
		if size == 0 {
			parts = append(parts, nil)
			continue
		}
		parts = append(parts, b[:size-1:size-1])
		b = b[size-1:]
	}
	if len(parts) < n {
		return nil, fmt.Errorf("%w: %d parts, want %d", durable.ErrDamaged, len(parts), n)
	}
	return parts, nil
}

// encodeEntry packs an entry: as JSON, but for the fields that may have any bytes, which are separate parts.
func encodeEntry(e script.Entry) ([]byte, error) {
	name, args, result, message := []byte(e.Name), []byte(e.Args), []byte(e.Result), []byte(nil)
	e.Key, e.Name, e.Args, e.Result = "", "", nil, nil
	if e.Failure != nil {
		message = append([]byte{}, e.Failure.Message...)
		e.Failure = &script.Failure{Kind: e.Failure.Kind}
	}
	rest, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return pack(rest, name, args, result, message), nil
}

func decodeEntry(key string, b []byte) (e script.Entry, err error) {
	parts, err := unpack(b, 5)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(parts[0], &e); err != nil {
		return e, fmt.Errorf("%w: %v", durable.ErrDamaged, err)
	}
	e.Key, e.Name, e.Args, e.Result = key, string(parts[1]), parts[2], parts[3]
	if e.Failure != nil {
		e.Failure.Message = string(parts[4])
	}
	return e, nil
}

// encodeAbout packs the data that a run was begun with, without its program. program is the hash of the program's row.
func encodeAbout(r durable.Run, program string) []byte {
	return pack([]byte(r.Parent), []byte(r.Tool), []byte(r.Principal), []byte(r.Dedupe), []byte(r.Trace), []byte(program), []byte(r.Program.Hash),
		r.Limits, r.Args, strconv.AppendInt(nil, micros(r.Expires), 10), strconv.AppendInt(nil, micros(r.Created), 10))
}

// decodeAbout unpacks what encodeAbout has packed.
func decodeAbout(b []byte) (r durable.Run, program string, err error) {
	p, err := unpack(b, 11)
	if err != nil {
		return r, "", err
	}
	r = durable.Run{
		Parent: string(p[0]), Tool: string(p[1]), Principal: string(p[2]), Dedupe: string(p[3]), Trace: string(p[4]),
		Program: durable.Program{Hash: string(p[6])}, Limits: p[7], Args: p[8], Expires: decodeTime(p[9]), Created: decodeTime(p[10]),
	}
	return r, string(p[5]), nil
}

func decodeTime(b []byte) time.Time {
	n, _ := strconv.ParseInt(string(b), 10, 64) // it was sealed, so it is a number
	return fromMicros(n)
}

// encodeProgram packs the files of a program, and returns the hash by which its row is found.
func encodeProgram(p durable.Program) (source []byte, hash string) {
	parts := [][]byte{[]byte(p.Main), []byte(strconv.Itoa(p.Engine))}
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		parts = append(parts, []byte(name), []byte(p.Files[name]))
	}
	source = pack(parts...)
	sum := sha256.Sum256(source)
	return source, hex.EncodeToString(sum[:])
}

func decodeProgram(source []byte, hash string) (p durable.Program, err error) {
	if sum := sha256.Sum256(source); hex.EncodeToString(sum[:]) != hash {
		return p, fmt.Errorf("%w: its program does not fit its hash", durable.ErrDamaged)
	}
	parts, err := unpack(source, 2)
	if err != nil {
		return p, err
	}
	p.Main, p.Files = string(parts[0]), map[string]string{}
	p.Engine, _ = strconv.Atoi(string(parts[1]))
	for i := 2; i+1 < len(parts); i += 2 {
		p.Files[string(parts[i])] = string(parts[i+1])
	}
	return p, nil
}

// column encodes a text for a text column: PostgreSQL accepts neither NUL nor invalid UTF-8. Such a text is stored as
// U+FFFD and its hexadecimal form.
func column(s string) string {
	if utf8.ValidString(s) && !strings.ContainsRune(s, 0) && !strings.HasPrefix(s, "\ufffd") {
		return s
	}
	return "\ufffd" + hex.EncodeToString([]byte(s))
}

func fromColumn(s string) string {
	if rest, ok := strings.CutPrefix(s, "\ufffd"); ok {
		if b, err := hex.DecodeString(rest); err == nil {
			return string(b)
		}
	}
	return s
}
