package tracecontext_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/tracecontext"
)

func TestOnlyValidHeadersSayWhoAsked(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for header, valid := range map[string]bool{
		"":                                  false,
		"00-" + trace + "-" + span + "-01":  true,
		"00-" + trace + "-" + span + "-01-": false,
		"cc-" + trace + "-" + span + "-01-what-will-be":                 true,
		"ff-" + trace + "-" + span + "-01":                              false,
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":             false,
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":            false,
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01":           false,
		"00-" + trace + "-" + span + "-01\r\nX-Evil: 1":                 false,
		"cc-" + trace + "-" + span + "-01-" + strings.Repeat("a", 1000): false,
	} {
		if got := tracecontext.Of(http.Header{"Traceparent": {header}}); (got != nil) != valid {
			t.Errorf("%q: %v", header, got)
		}
	}
	two := http.Header{"Traceparent": {"00-" + trace + "-" + span + "-01"}, "Tracestate": {"a=1", "b=2"}}
	if got := tracecontext.Of(two); got == nil || got.State != "a=1,b=2" {
		t.Errorf("states of two headers: %v", got)
	}
	two["Tracestate"] = []string{strings.Repeat("a", 600)}
	if got := tracecontext.Of(two); got == nil || got.State != "" {
		t.Errorf("a state that is too long: %v", got)
	}
	two["Traceparent"] = append(two["Traceparent"], two["Traceparent"]...)
	if got := tracecontext.Of(two); got != nil {
		t.Errorf("two parents: %v", got)
	}
}
