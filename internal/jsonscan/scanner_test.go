package jsonscan

import "testing"

// values are JSON values whose ends are not obvious.
var values = []string{
	`{}`, `[]`, `""`, `0`, `-1.5e+7`, `true`, `null`, `"\""`, `"\\"`, `"\\\""`, `"a\\\\"`, `"]}"`, `"é"`, `"\u0022"`,
	`{"a":{"b":[1,"}",{"c":"\\"}]},"d":"\"]"}`, `[[[["x"]]],{"":[]}]`, `[1,2,3]`, `[ "\\" , { } ]`,
}

func TestValueEndsWhereItEndsHoweverItIsCut(t *testing.T) {
	for _, v := range values {
		text := v + `,"more":1}`
		for cut := 1; cut < len(text); cut++ {
			var s Scanner
			n, done, err := s.Scan([]byte(text[:cut]))
			if err == nil && !done {
				var m int
				m, done, err = s.Scan([]byte(text[cut:]))
				n += m
			}
			if n != len(v) || !done || err != nil {
				t.Errorf("%s cut at %d ends at %d (%v, %v), want %d", v, cut, n, done, err, len(v))
			}
		}
	}
}

func TestFindTakesTheLastOfDuplicates(t *testing.T) {
	obj := []byte(`{"a":{"_meta":1},"_meta":2,"b":"_meta","_meta": 3 }`)
	if start, end := Find(obj, "_meta"); string(obj[start:end]) != "3" {
		t.Errorf("found %d to %d", start, end)
	}
	if start, _ := Find(obj, "c"); start >= 0 {
		t.Errorf("found what is not there at %d", start)
	}
}
