package graph

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Values are decoded by decoders that are used again, with the results and the errors of
// json.Unmarshal, whatever they decoded before.
func TestADecoderThatIsUsedAgainDecodesAsJSONUnmarshalDoes(t *testing.T) {
	type value struct {
		A int
		B []string
		C map[string]any
		D json.RawMessage
		E any
	}
	long := `{"B":["` + strings.Repeat("x", 5000) + `"]}`
	for range 3 {
		for _, text := range []string{
			`{}`, `[]`, `{"A":1,"B":["x","y"],"C":{"x":[1,{}]},"D":{"raw": [1]},"E":null}`, long, `"text"`, `1`, `null`, `true`, ``, ` {"A":2} `,
			`{"A":"x"}`, `{"A":1}{"A":2}`, `{"A":1}}`, `{"A":1]`, `{"A":1`, `{"A":1,}`, `[{"A":1}]`, `{"D":{}`, `}`, `]`, `{"A":1} ]`,
			`{"B":["` + strings.Repeat("y", mostRead) + `"]}`,
		} {
			var got, want value
			gotErr, wantErr := decodeJSON([]byte(text), &got), json.Unmarshal([]byte(text), &want)
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || wantErr == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("%.50s is %+v, %v; want %+v, %v", text, got, gotErr, want, wantErr)
			}
		}
	}
}
