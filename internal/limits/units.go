package limits

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a duration in the form of Go, with days of 24 hours in addition: "300ms", "5m",
// "1h30m", "90d", "1d12h".
type Duration time.Duration

// maxDuration bounds the text of a Duration, in bytes.
const maxDuration = 100

// ParseDuration parses the text form of a Duration.
func ParseDuration(text string) (time.Duration, error) {
	if len(text) > maxDuration {
		return 0, fmt.Errorf("a duration of %d bytes, at most %d are read", len(text), maxDuration)
	}
	days, rest, has := strings.Cut(text, "d")
	if !has {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || n > uint64(math.MaxInt64/(24*time.Hour)) {
		return 0, fmt.Errorf("%q: want whole days before the d", text)
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 || d+more < d {
		return 0, fmt.Errorf("%q: want hours, minutes or smaller units after the days", text)
	}
	return d + more, nil
}

// Std returns d as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the text form.
func (d Duration) String() string { return d.Std().String() }

// MarshalText writes the text form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.Std().String()), nil }

// UnmarshalText reads the text form.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf(`want a duration such as "30s" or "5m", have %q`, b)
	}
	*d = Duration(v)
	return nil
}

// Bytes is a size in bytes, written with a unit of B, KB, MB or GB, each 1024 times
// the one before: "256MB".
type Bytes int64

// byteUnits are the units of Bytes, largest first; B last, because it is a suffix of the others, too.
var byteUnits = []struct {
	name string
	size Bytes
}{{"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}, {"B", 1}}

// String returns b in the largest unit that divides it.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b%u.size == 0 && (b != 0 || u.size == 1) {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	return "0B"
}

// MarshalText writes the text form.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads the text form.
func (b *Bytes) UnmarshalText(text []byte) error {
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(string(text), u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/int64(u.size) {
			break
		}
		*b = Bytes(n) * u.size
		return nil
	}
	return fmt.Errorf(`want a size such as "256MB" or "64KB", have %q`, text)
}
