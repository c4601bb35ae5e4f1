package runs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/proxy/runs"
)

// BenchmarkEdit scans a result that needs no change.
func BenchmarkEdit(b *testing.B) {
	for _, size := range []int{100, 10_000, 60_000} {
		result := []byte(fmt.Sprintf(`{"content":[{"type":"text","text":"%s"}],"isError":false}`, strings.Repeat(`a line with \"quotes\"\n`, size/24)))
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			b.SetBytes(int64(len(result)))
			b.ReportAllocs()
			for b.Loop() {
				if got := (runs.Result{}).Apply(result); &got[0] != &result[0] {
					b.Fatal("the result was copied")
				}
			}
		})
	}
}
