package relay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// TestMain also runs the stdio backends.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asRooted) != "":
		rooted()
	case os.Getenv(asBackend) != "":
		err := exact(os.Getenv(asBackend) == "modern").ServeStdio(os.Stdin, os.Stdout)
		if err != nil && !errors.Is(err, io.EOF) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case os.Getenv("CHILD_PASSWORD") != "":
		tell(os.Getenv("CHILD_PASSWORD"))
	default:
		testmode.SideBySide(8)
		os.Exit(m.Run())
	}
}

// tell writes a secret to standard error and standard output, and ends.
func tell(secret string) {
	for at := 4080; at < 4110; at++ {
		fmt.Fprintln(os.Stderr, strings.Repeat("x", at)+secret)
	}
	fmt.Fprintln(os.Stderr, marker, strings.Join(forms(secret), " "))
	fmt.Println("no frame:", secret)
	fmt.Println(`{"jsonrpc":"2.0", ` + secret)
	os.Exit(3)
}
