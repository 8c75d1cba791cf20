package orders

import (
	"testing"

	"github.com/superstep-dev/superstep/graphtest"
)

func TestLargeOrdersNeedAYes(t *testing.T) {
	for _, test := range []struct {
		amount  float64
		answers graphtest.Script
		receipt string
	}{
		{Limit, nil, "paid 50.00 for a chair"},
		{120, graphtest.Script{"approve": {true}}, "paid 120.00 for a chair"},
		{120, graphtest.Script{"approve": {false}}, ""},
	} {
		snap := graphtest.Run(t, Builder(Pay), func(s *State) error {
			s.Item, s.Amount = "a chair", test.amount
			return nil
		}, test.answers)
		if snap.State.Receipt != test.receipt {
			t.Errorf("%v, %v: the receipt is %q, want %q", test.amount, test.answers, snap.State.Receipt, test.receipt)
		}
	}
}
