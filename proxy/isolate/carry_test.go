package isolate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
)

// TestErrorsAsTheyWere: of an error that has crossed, all is known that a run looks for.
func TestErrorsAsTheyWere(t *testing.T) {
	questions := &script.Suspended{Questions: []script.Question{{Key: "3"}}}
	cause := errors.New("enough")
	known := script.Known{Suspended: questions, Cause: cause}
	for name, err := range map[string]error{
		"a text":        errors.New("no"),
		"a limit":       &script.LimitError{Limit: "calls", Value: "3"},
		"a failure":     fmt.Errorf("around: %w", &script.Failure{Kind: "tool", Message: "no"}),
		"an error":      &script.Error{Msg: "no", Backtrace: "Traceback", Err: &script.Failure{Kind: "tool", Message: "no"}},
		"a suspension":  questions,
		"cancelled":     &script.Cancelled{Cause: cause},
		"diverged":      &script.Diverged{Key: "1", Have: "a", Want: "b"},
		"journal":       &script.JournalError{Err: errors.New("gone")},
		"interrupted":   &script.Interrupted{Doubts: []script.Doubt{{Key: "1", Kind: "a"}}},
		"busy":          &script.Busy{Why: "no room"},
		"not done":      script.NotDone(&builtins.ToolError{Kind: builtins.Unavailable, Msg: "down"}),
		"cannot ask":    fmt.Errorf("elicit: %w", builtins.ErrNoElicitation),
		"late":          fmt.Errorf("call: %w", context.DeadlineExceeded),
		"no UTF-8":      errors.New("\xff"),
		"a crash":       &script.Crash{Value: "index", Stack: []byte("stack")},
		"nested causes": &script.Error{Msg: "a", Err: &script.Error{Msg: "b", Err: &script.LimitError{Limit: "time", Value: "1s"}}},
	} {
		got := codec{}.DecodeError(codec{}.EncodeError(err), known)
		if got.Error() != err.Error() || script.Final(got) != script.Final(err) || script.IsNotDone(got) != script.IsNotDone(err) {
			t.Errorf("%s: %v, final %v, not done %v; want %v, %v, %v", name, got, script.Final(got), script.IsNotDone(got), err, script.Final(err), script.IsNotDone(err))
		}
		for _, target := range []any{
			new(*script.LimitError), new(*script.Failure), new(*script.Suspended), new(*script.Cancelled), new(*script.Diverged),
			new(*script.Interrupted), new(*script.Busy), new(*script.Crash), new(*builtins.ToolError),
		} {
			want := reflect.New(reflect.TypeOf(target).Elem())
			if there := errors.As(err, want.Interface()); there != errors.As(got, target) {
				t.Errorf("%s: as %T: %v, want %v", name, target, !there, there)
			} else if there && fmt.Sprintf("%+v", reflect.ValueOf(target).Elem().Interface()) != fmt.Sprintf("%+v", want.Elem().Interface()) {
				t.Errorf("%s: %+v, want %+v", name, reflect.ValueOf(target).Elem().Interface(), want.Elem().Interface())
			}
		}
		for _, sentinel := range []error{builtins.ErrNoElicitation, context.DeadlineExceeded, cause} {
			if errors.Is(got, sentinel) != errors.Is(err, sentinel) {
				t.Errorf("%s: is %v: %v", name, sentinel, errors.Is(got, sentinel))
			}
		}
	}
	if err := (codec{}).DecodeError((codec{}).EncodeError(nil), known); err != nil {
		t.Errorf("nil was decoded as %v", err)
	}
}

// TestErrorsThatAreNone: what a worker makes up ends its run.
func TestErrorsThatAreNone(t *testing.T) {
	for data, want := range map[string]string{
		"{":                  "a malformed error",
		`{"suspended":true}`: "a suspension without a question",
	} {
		err := codec{}.DecodeError([]byte(data), script.Known{})
		if !errors.As(err, new(*script.WorkerError)) || !strings.Contains(err.Error(), want) || !script.Final(err) {
			t.Errorf("DecodeError(%s) = %v, want %s", data, err, want)
		}
	}
}
