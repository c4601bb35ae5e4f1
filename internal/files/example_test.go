package files_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/vmcp-dev/vmcp/internal/files"
)

// A file is read again when its stamp has changed.
func ExampleStamp() {
	dir, err := os.MkdirTemp("", "stamp")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "token")
	read := files.StampOf(name)
	if err := os.WriteFile(name, []byte("secret"), 0o600); err != nil {
		panic(err)
	}
	now := files.StampOf(name)
	fmt.Println(read.Exists(), now.Exists(), now.Same(read))
	// Output: false true false
}
