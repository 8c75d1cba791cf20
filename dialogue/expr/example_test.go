package expr_test

import (
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
)

// slots are an Env of plain values.
type slots map[string]expr.Value

func (s slots) Lookup(path []string) (expr.Value, bool) {
	v, ok := s[path[0]]
	if !ok {
		return expr.Value{}, false
	}
	return v.At(path[1:])
}
func (slots) Now() time.Time { return time.Unix(0, 0).UTC() }
func (slots) UUID() string   { return "" }

func ExampleParse() {
	e, err := expr.Parse("not (amount > 10)")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.True(slots{"amount": expr.Num(5)}))
	fmt.Println(e.True(slots{})) // what is missing has no order, and a guard doesn't open by it
	fmt.Println(e.Reads()[0])
	// Output:
	// true
	// false
	// amount
}
