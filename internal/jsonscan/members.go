package jsonscan

import "encoding/json"

// Each calls f for the members of obj in order until it returns false. key is
// unescaped; value is a slice of obj. It does nothing when obj is not an object.
// obj must be valid JSON.
func Each(obj []byte, f func(key, value []byte) bool) {
	eachMember(obj, func(m member) bool { return f(m.key, obj[m.value:m.end]) })
}

// member is one member of an object: its key and position.
type member struct {
	key               []byte
	start, value, end int // index of the key's quote, of the value, after the value
}

func eachMember(obj []byte, f func(member) bool) {
	i := skipSpace(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return
	}
	i = skipSpace(obj, i+1)
	for i < len(obj) && obj[i] == '"' {
		m := member{start: i}
		keyEnd, err := skipString(obj, i)
		if err != nil {
			return
		}
		m.key = unescape(obj[i:keyEnd])
		if m.value, err = skipKey(obj, i); err != nil {
			return
		}
		if m.end, err = skipValue(obj, m.value); err != nil || !f(m) {
			return
		}
		i = skipSpace(obj, m.end)
		if i >= len(obj) || obj[i] != ',' {
			return
		}
		i = skipSpace(obj, i+1)
	}
}

// Elements calls f for the elements of the array arr in order until it returns false.
func Elements(arr []byte, f func(value []byte) bool) {
	i := skipSpace(arr, 0)
	if i >= len(arr) || arr[i] != '[' {
		return
	}
	i = skipSpace(arr, i+1)
	for i < len(arr) && arr[i] != ']' {
		end, err := skipValue(arr, i)
		if err != nil || !f(arr[i:end]) {
			return
		}
		i = skipSpace(arr, end)
		if i >= len(arr) || arr[i] != ',' {
			return
		}
		i = skipSpace(arr, i+1)
	}
}

// Get returns the value of obj's member key, a slice of obj, or nil when there is none. Of
// duplicates the last one counts, as in most decoders.
func Get(obj []byte, key string) json.RawMessage {
	var found json.RawMessage
	Each(obj, func(k, v []byte) bool {
		if string(k) == key {
			found = v
		}
		return true
	})
	return found
}

// GetPath follows keys into nested objects.
func GetPath(obj []byte, keys ...string) json.RawMessage {
	for _, k := range keys {
		if obj = Get(obj, k); obj == nil {
			return nil
		}
	}
	return obj
}

// GetString returns the text of obj's member key; "" when it is absent or not a string.
func GetString(obj []byte, key string) string {
	v := Get(obj, key)
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	return string(unescape(v))
}
