package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/superstep-dev/superstep/graph"
)

// Values has the values that placeholders of an instruction stand for. Package
// session provides those of the session; other programs give their own with
// [graph.ProvideDeps].
//
// In an instruction {name} is replaced by the value of that name and stays as it
// is if there is none; {name?} is then replaced by nothing. A name is made of
// letters, digits, _ , - and points, begins with a letter or _, and may begin with
// the scope "user:", "app:" or "temp:". Everything else in braces is left alone.
type Values interface {
	// Value returns the value of a name, its scope included.
	Value(ctx context.Context, name string) (any, bool)
}

var placeholder = regexp.MustCompile(`\{((?:(?:user|app|temp):)?[A-Za-z_][A-Za-z0-9_.\-]*)(\?)?\}`)

// expand replaces the placeholders of an instruction.
func expand(ctx context.Context, text string) string {
	if !placeholder.MatchString(text) {
		return text
	}
	values, err := graph.Deps[Values](ctx)
	if err != nil {
		values = noValues{} // the run has none
	}
	return placeholder.ReplaceAllStringFunc(text, func(match string) string {
		parts := placeholder.FindStringSubmatch(match)
		v, ok := values.Value(ctx, parts[1])
		switch {
		case ok:
			return render(v)
		case parts[2] != "":
			return ""
		}
		return match
	})
}

type noValues struct{}

func (noValues) Value(context.Context, string) (any, bool) { return nil, false }

// render writes a value into an instruction: text as it is, the rest as JSON.
func render(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case fmt.Stringer:
		return v.String()
	case json.RawMessage:
		var text string
		if json.Unmarshal(v, &text) == nil {
			return text
		}
		return string(v)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
