// Package format bounds the length of texts that a format of package fmt can produce.
package format

import "fmt"

// longestText bounds the text of a format, in bytes.
const longestText = 64 << 20

// Check refuses a format that could produce a huge text from small values: by widths, or
// by repeating a value.
func Check(format string, args []any) error {
	var all int64
	for _, a := range args {
		all += size(a)
	}
	const widest = 1_000_000 // the most that fmt pads to
	var width, longest, verbs int64
	for _, c := range format {
		switch {
		case c == '%':
			verbs++
			width = 0
		case c >= '0' && c <= '9':
			width = min(width*10+int64(c-'0'), widest)
		case c == '*':
			width = widest
		default:
			width = 0
		}
		longest = max(longest, width)
	}
	if verbs*(2*longest+10*all) > longestText {
		return fmt.Errorf("the format %.40q could make a text of more than %dMB", format, longestText>>20)
	}
	return nil
}

// size estimates the length of a value as text, in bytes.
func size(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v))
	case float64:
		return 400
	case []any:
		n := int64(2)
		for _, e := range v {
			n += size(e) + 1
		}
		return n
	case map[string]any:
		n := int64(2)
		for k, e := range v {
			n += int64(len(k)) + size(e) + 2
		}
		return n
	}
	return 24
}
