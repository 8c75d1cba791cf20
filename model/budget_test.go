package model_test

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

func TestABudgetEndsAtEachOfItsLimits(t *testing.T) {
	// A call takes 100 tokens and gives 10: 0.0013 of money.
	reply := scripted.Text("x").Usage(chat.Usage{Input: 100, Output: 10}).Repeat()
	prices := model.Prices{Input: 10, Output: 30}
	for _, tt := range []struct {
		budget *model.Budget
		calls  int
		want   model.BudgetError
		text   string
	}{
		{&model.Budget{MaxCalls: 3}, 3, model.BudgetError{Limit: model.BudgetCalls, Spent: 3, Max: 3}, "the budget of calls is used up: 3 of 3"},
		{&model.Budget{MaxInput: 250}, 3, model.BudgetError{Limit: model.BudgetInput, Spent: 300, Max: 250}, "the budget of input tokens is used up: 300 of 250"},
		{&model.Budget{MaxOutput: 20}, 2, model.BudgetError{Limit: model.BudgetOutput, Spent: 20, Max: 20}, "the budget of output tokens is used up: 20 of 20"},
		{&model.Budget{MaxTokens: 111}, 2, model.BudgetError{Limit: model.BudgetTokens, Spent: 220, Max: 111}, "the budget of tokens is used up: 220 of 111"},
		{&model.Budget{MaxCost: 0.001}, 1, model.BudgetError{Limit: model.BudgetCost, Spent: 0.0013, Max: 0.001}, "the budget of cost is used up: 0.0013 of 0.001"},
	} {
		for _, stream := range []bool{false, true} {
			b := &model.Budget{MaxCalls: tt.budget.MaxCalls, MaxInput: tt.budget.MaxInput, MaxOutput: tt.budget.MaxOutput, MaxTokens: tt.budget.MaxTokens, MaxCost: tt.budget.MaxCost}
			s := scripted.New(reply)
			m := model.Budgeted(s, b, prices)
			for range tt.calls {
				if _, err := text(t.Context(), m, ask("?"), stream); err != nil {
					t.Fatalf("%s: %v", tt.want.Limit, err)
				}
			}
			_, err := text(t.Context(), m, ask("?"), stream)
			var e *model.BudgetError
			if !errors.As(err, &e) || *e != tt.want || err.Error() != tt.text {
				t.Errorf("error %v, want %s", err, tt.text)
			}
			if n := len(s.Requests()); n != tt.calls || b.Spent().Calls != tt.calls {
				t.Errorf("%s: %d calls, %d counted", tt.want.Limit, n, b.Spent().Calls)
			}
		}
	}
}

func TestCachedTokensHaveTheirOwnPrice(t *testing.T) {
	u := chat.Usage{Input: 1000, CacheRead: 600, CacheWrite: 100, Output: 10, Reasoning: 5}
	for _, tt := range []struct {
		prices model.Prices
		want   float64
	}{
		{model.Prices{Input: 2, Output: 5}, 2050},
		{model.Prices{Input: 2, Output: 5, CacheRead: 0.5, CacheWrite: 3}, 600 + 300 + 300 + 50},
		{model.Prices{Input: 2, Output: 5, Free: true}, 0},
		{model.Prices{}, 0},
	} {
		if got := tt.prices.Cost(u) * 1e6; math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("%+v: %v, want %v", tt.prices, got, tt.want)
		}
	}
}

func TestPricesAndLimitsBelowZeroAreRefused(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for want, c := range map[string]struct {
		budget *model.Budget
		prices model.Prices
	}{
		"the price Input is -1":               {&model.Budget{}, model.Prices{Input: -1, Output: 1}},
		"the price Output is NaN":             {&model.Budget{MaxCost: 1}, model.Prices{Input: 1, Output: nan}},
		"the price CacheRead is +Inf":         {&model.Budget{}, model.Prices{Input: 1, CacheRead: inf}},
		"the price CacheWrite is -2":          {&model.Budget{}, model.Prices{Free: true, CacheWrite: -2}},
		"MaxCalls of the budget is -1":        {&model.Budget{MaxCalls: -1}, model.Prices{}},
		"MaxTokens of the budget is -5":       {&model.Budget{MaxTokens: -5}, model.Prices{}},
		"MaxCost of the budget is -0.5: give": {&model.Budget{MaxCost: -0.5}, model.Prices{Input: 1}},
	} {
		bothWays(t, func(t *testing.T, stream bool) {
			s := scripted.New(scripted.Text("x"))
			_, err := text(t.Context(), model.Budgeted(s, c.budget, c.prices), ask("?"), stream)
			e, ok := errors.AsType[*model.Error](err)
			if !ok || e.Kind != model.ErrorInvalid || !strings.Contains(err.Error(), want) || s.Left() != 1 || c.budget.Spent() != (model.Spent{}) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

func TestModelsShareABudget(t *testing.T) {
	b := &model.Budget{MaxCalls: 50}
	reply := scripted.Text("x").Usage(chat.Usage{Input: 2, Output: 1}).Repeat()
	cheap := model.Budgeted(scripted.New(reply), b, model.Prices{Free: true})
	dear := model.Budgeted(scripted.New(reply), b, model.Prices{Input: 1e6, Output: 1e6})
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			m := dear
			if i%2 == 0 {
				m = cheap
			}
			var e *model.BudgetError
			if _, err := text(t.Context(), m, ask("?"), i%4 < 2); err != nil && !errors.As(err, &e) {
				t.Error(err)
			}
			b.Spent()
		})
	}
	wg.Wait()
	if got := b.Spent(); got.Calls != 50 || got.Usage.Total() != 150 || got.Estimated != 0 {
		t.Errorf("%+v", got)
	}
}

func TestACostLimitNeedsPrices(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		b := &model.Budget{MaxCost: 1}
		s := scripted.New(scripted.Text("x"))
		if _, err := text(t.Context(), model.Budgeted(s, b, model.Prices{}), ask("?"), stream); !errors.Is(err, model.ErrNoPrices) || s.Left() != 1 {
			t.Errorf("error %v", err)
		}
		if _, err := text(t.Context(), model.Budgeted(s, b, model.Prices{Free: true}), ask("?"), stream); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatTheProviderDoesNotCountIsEstimated(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		b := &model.Budget{}
		m := model.Budgeted(scripted.New(scripted.Text("12345678").Repeat()), b, model.Prices{})
		if _, err := text(t.Context(), m, ask("1234"), stream); err != nil {
			t.Fatal(err)
		}
		if got, want := b.Spent(), (model.Spent{Calls: 1, Estimated: 1, Usage: chat.Usage{Input: 1, Output: 2}}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		m = model.Budgeted(scripted.New(scripted.Text("12345678")), b, model.Prices{Estimate: func(req *model.Request, answer chat.Message) chat.Usage {
			return chat.Usage{Input: len(req.Messages[0].Text()), Output: len(answer.Text())}
		}})
		if _, err := text(t.Context(), m, ask("1234"), stream); err != nil {
			t.Fatal(err)
		}
		if got, want := b.Spent(), (model.Spent{Calls: 2, Estimated: 2, Usage: chat.Usage{Input: 5, Output: 10}}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func TestPartsOfStreamsCountToo(t *testing.T) {
	b := &model.Budget{}
	reply := scripted.Text("1234 1234 1234")
	m := model.Budgeted(scripted.New(reply, reply.Break(2, nil), scripted.Error(failure(model.ErrorServer))), b, model.Prices{})
	for range m.Stream(t.Context(), ask("1234")) {
		break
	}
	if got, want := b.Spent(), (model.Spent{Calls: 1, Estimated: 1, Usage: chat.Usage{Input: 1, Output: 2}}); got != want {
		t.Errorf("left: %+v, want %+v", got, want)
	}
	if _, err := text(t.Context(), m, ask("1234"), true); !model.Temporary(err) {
		t.Errorf("error %v", err)
	}
	if got, want := b.Spent(), (model.Spent{Calls: 2, Estimated: 2, Usage: chat.Usage{Input: 2, Output: 5}}); got != want {
		t.Errorf("broken: %+v, want %+v", got, want)
	}
	if _, err := text(t.Context(), m, ask("1234"), true); !model.Temporary(err) {
		t.Errorf("error %v", err)
	}
	if got, want := b.Spent(), (model.Spent{Calls: 3, Estimated: 2, Usage: chat.Usage{Input: 2, Output: 5}}); got != want {
		t.Errorf("failed: %+v, want %+v", got, want)
	}
	// A provider that counts the input at the beginning.
	m = model.Budgeted(&silentFirst{silent: 8, fail: 1}, b, model.Prices{})
	if _, err := text(t.Context(), m, ask("1234"), true); !model.Temporary(err) {
		t.Errorf("error %v", err)
	}
	if got, want := b.Spent(), (model.Spent{Calls: 4, Estimated: 2, Usage: chat.Usage{Input: 9, Output: 5}}); got != want {
		t.Errorf("began: %+v, want %+v", got, want)
	}
}
