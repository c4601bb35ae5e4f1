package migrate

import (
	"fmt"
	"regexp"
	"strconv"
)

// comparison is what people write who know other template languages.
var comparison = regexp.MustCompile(`\{\{\s*(\.[A-Za-z_][\w.]*)\s*(==|!=)\s*(?:'([^']*)'|"([^"]*)")\s*\}\}`)

// repair returns the template that a text was meant to be, and what was done; "" when
// that is not plain.
func repair(text string) (repaired, how string) {
	m := comparison.FindStringSubmatch(text)
	if m == nil {
		return "", ""
	}
	function := map[string]string{"==": "eq", "!=": "ne"}
	repaired = comparison.ReplaceAllStringFunc(text, func(s string) string {
		m := comparison.FindStringSubmatch(s)
		return fmt.Sprintf("{{%s %s %s}}", function[m[2]], m[1], strconv.Quote(m[3]+m[4]))
	})
	return repaired, fmt.Sprintf("%s is read as the function %s", m[0], function[m[2]])
}
