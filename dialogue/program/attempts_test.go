package program_test

import (
	"strings"
	"testing"
)

func TestALimitOfRefusalsWhereNothingIsRefusedIsAWarning(t *testing.T) {
	for slot, warns := range map[string]bool{
		"{ask: {text: X?}}":                            true,
		"{type: any, ask: {text: X?}}":                 true,
		"{type: list, ask: {text: X?}}":                true,
		"{type: number, ask: {text: X?}}":              false,
		"{type: list, items: number, ask: {text: X?}}": false,
		"{options: [a, b], ask: {text: X?}}":           false,
		"{length: {max: 3}, ask: {text: X?}}":          false,
		"{format: iban, ask: {text: X?}}":              false,
		"{validate: known, ask: {text: X?}}":           false,
	} {
		p := compiled(t, `version: "2.0"
slots: {x: `+slot+`}
flows: {a: {description: A., steps: [{collect: x, max_attempts: 2}]}}
`)
		text := p.Warnings.Error()
		if got := strings.Contains(text, `flow "a", step "collect_1": the step has "max_attempts"`); got != warns {
			t.Errorf("%s: %q, want a warning: %v", slot, text, warns)
		}
	}
}

func TestAGuardThatReadsWhatIsNotThereYetIsAWarning(t *testing.T) {
	for guard, warns := range map[string]bool{"x == 'y'": true, "given == 'y'": false, "session.tier == 'y'": false, "turn.channel == 'web'": false} {
		p := compiled(t, `version: "2.0"
session: {tier: {}}
slots: {x: {ask: {text: X?}}, given: {}}
flows: {a: {description: A., guard: "`+guard+`", inputs: ["given?"], steps: [{collect: x}, {set: {session.tier: y}}]}}
`)
		text := p.Warnings.Error()
		if got := strings.Contains(text, `flow "a": the guard reads slot "x", which has no value before the flow starts`); got != warns {
			t.Errorf("%s: %q, want a warning: %v", guard, text, warns)
		}
	}
}
