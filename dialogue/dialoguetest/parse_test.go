package dialoguetest_test

import (
	"testing"

	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
)

func TestEveryUnknownKeyOfAFileIsNamedWithItsLineAndItsRepair(t *testing.T) {
	for text, want := range map[string]string{
		"- id: a\n  turn:\n  - {u: a, hass: [x]}\n  turns:\n  - {u: a,\n     hass: [x], wait: n}\n  - {xyzzy: 1}": "line 2: unknown key \"turn\"; did you mean \"turns\"?\n" +
			"line 6: unknown key \"hass\"; did you mean \"has\"?\n" +
			"line 7: unknown key \"xyzzy\"",
		"- id: a\n  check: {file: {}}": "line 2: unknown key \"file\"; did you mean \"files\"?",
		"- id: a\n- id: a":             `two scenarios are called "a"`,
		"- id: a\n  turns: []":         "",
	} {
		_, err := dialoguetest.Parse([]byte(text))
		if got := message(err); got != want {
			t.Errorf("%s\nerror %q, want %q", text, got, want)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
