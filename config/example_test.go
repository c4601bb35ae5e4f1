package config_test

import (
	"fmt"

	"github.com/vmcp-dev/vmcp/config"
)

// All problems of a file are reported at once, with positions.
func ExampleParse() {
	_, err := config.Parse("vmcp.yaml", []byte(`
backends:
  - name: github
    url: ftp://example.com
    timeout: soon
`))
	fmt.Println(err)
	// Output:
	// vmcp.yaml:4:10: error: backends[0].url: want a URL that begins with http:// or https:// [config]
	// vmcp.yaml:5:14: error: backends[0].timeout: want a duration such as "30s" or "5m", have "soon" [config]
}
