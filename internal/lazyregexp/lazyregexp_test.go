package lazyregexp_test

import (
	"testing"

	"github.com/superstep-dev/superstep/internal/lazyregexp"
)

func TestAnExpressionIsCompiledWhenItIsUsed(t *testing.T) {
	number, broken := lazyregexp.New(`^\d+$`), lazyregexp.New(`(`)
	if first, again := number(), number(); !first.MatchString("12") || first != again {
		t.Error("it is not one compiled expression")
	}
	defer func() {
		if recover() == nil {
			t.Error("a broken expression did not panic")
		}
	}()
	broken()
}
