package limits_test

import (
	"reflect"
	"testing"
	"testing/quick"
	"time"

	"github.com/vmcp-dev/vmcp/internal/limits"
)

// Sizes and durations in messages can be used in the configuration.
func TestTextsAreReadAsTheyAreWritten(t *testing.T) {
	size := func(n int64) bool {
		var back limits.Bytes
		b := limits.Bytes(max(n, -n) & (1<<62 - 1))
		return back.UnmarshalText([]byte(b.String())) == nil && back == b
	}
	length := func(n int64) bool {
		var back limits.Duration
		return back.UnmarshalText([]byte(limits.Duration(n).String())) == nil && back == limits.Duration(n)
	}
	for _, f := range []any{size, length} {
		if err := quick.Check(f, nil); err != nil {
			t.Error(err)
		}
	}
	for b, want := range map[limits.Bytes]string{0: "0B", 20: "20B", 1000: "1000B", 4 << 10: "4KB", 256 << 20: "256MB", 2 << 30: "2GB", 1<<20 + 1: "1048577B"} {
		if got := b.String(); got != want {
			t.Errorf("%d bytes are %s, want %s", int64(b), got, want)
		}
	}
}

func TestEveryLimitHasADefault(t *testing.T) {
	v := reflect.ValueOf(limits.Defaults())
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s has none", v.Type().Field(i).Name)
		}
	}
}

func TestOr(t *testing.T) {
	all := limits.Defaults()
	for _, l := range []limits.Run{{}, all} {
		if got := l.Or(all); got != all {
			t.Errorf("%+v.Or(defaults) = %+v", l, got)
		}
	}
	want := all
	want.Steps, want.Time = 5, limits.Duration(time.Second)
	if got := (limits.Run{Steps: 5, Time: limits.Duration(time.Second)}).Or(all); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func BenchmarkOr(b *testing.B) {
	l, all := limits.Run{Steps: 5}, limits.Defaults()
	for b.Loop() {
		l.Or(all)
	}
}
