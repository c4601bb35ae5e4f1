package display_test

import (
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/display"
)

func TestNearest(t *testing.T) {
	names := []string{"call_tool", "try_call_tool", "elicit", "log", "Backends"}
	for name, want := range map[string]string{
		"cal_tool":                "call_tool",
		"call_tolo":               "call_tool",
		"elict":                   "elicit",
		"backends":                "Backends",
		"lgo":                     "log",
		"entirely_other":          "",
		"":                        "",
		strings.Repeat("log", 30): "",
	} {
		if got := display.Nearest(name, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestSlip(t *testing.T) {
	for _, tt := range []struct {
		name, other string
		want        bool
	}{
		{"coupn", "coupon", true}, {"cuopon", "coupon", true}, {"couponn", "coupon", true}, {"Coupom", "coupon", true},
		{"state", "status", false}, {"label", "labels", false}, {"labels", "label", false}, {"id", "ids", false}, {"ID", "id", false},
		{"coupon", "coupon", false}, {"", "coupon", false}, {strings.Repeat("x", 100), strings.Repeat("x", 99), false},
	} {
		if got := display.Slip(tt.name, tt.other); got != tt.want {
			t.Errorf("Slip(%q, %q) = %t", tt.name, tt.other, got)
		}
	}
}

func TestOnly(t *testing.T) {
	for _, tt := range []struct {
		name       string
		candidates string
		want       bool
	}{
		{"shop_get_ordr", "shop_get_order shop_refund", true}, {"shop_getorder", "shop_get_order", true}, {"gret", "greet", true},
		{"max_attempt", "max_attempts delay", true}, {"nmae", "name id", true}, {"flor", "floor", true},
		{"shop_get_ordr", "shop_get_order shop_get_orders", false}, // which of them
		{"shop_cancel_order", "shop_create_order", false},          // another word
		{"get_order", "set_order", false}, {"x", "y", false}, {"id", "is", false}, {"order", "", false},
	} {
		if got := display.Only(tt.name, strings.Fields(tt.candidates)); got != tt.want {
			t.Errorf("Only(%q, %s) = %t", tt.name, tt.candidates, got)
		}
	}
}
