package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"sync"

	"github.com/superstep-dev/superstep/chat"
)

// Budget bounds what calls of models may use in all. The zero value bounds
// nothing and counts. Several models can share one Budget; see [Budgeted].
//
// It is safe for concurrent use. Its fields may not be altered, nor the Budget
// be copied, after the first call.
type Budget struct {
	// The limits; 0 means none.
	MaxCalls  int     // attempts, failed ones included
	MaxInput  int     // tokens of requests
	MaxOutput int     // tokens of answers
	MaxTokens int     // of both
	MaxCost   float64 // in the currency of the prices

	mu    sync.Mutex
	spent Spent
}

// Spent is what was used of a [Budget].
type Spent struct {
	Calls     int // that were begun
	Estimated int // of Calls: without the provider's usage, counted by estimate
	Usage     chat.Usage
	Cost      float64
}

// Spent returns what was used so far. Calls that are under way are in Calls, and
// in the rest once they end.
func (b *Budget) Spent() Spent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

// Prices are what a model costs for each million tokens, in any currency.
type Prices struct {
	Input      float64
	Output     float64
	CacheRead  float64 // input read from the provider's cache; 0 means Input
	CacheWrite float64 // input written to it; 0 means Input

	// Free says that the model costs nothing. Without it, a budget with a
	// MaxCost refuses a model that has no prices.
	Free bool

	// Estimate counts the tokens of a call for which the provider reports
	// none: because it never does, or because the stream failed or the caller
	// left it. The answer is as much as came. Nil counts a token for four
	// bytes; see [EstimateTokens].
	Estimate func(*Request, chat.Message) chat.Usage
}

// known reports whether there are prices.
func (p Prices) known() bool { return p.Free || p.Input > 0 || p.Output > 0 }

// Cost returns what a usage costs.
func (p Prices) Cost(u chat.Usage) float64 {
	if p.Free {
		return 0
	}
	read, write := p.CacheRead, p.CacheWrite
	if read == 0 {
		read = p.Input
	}
	if write == 0 {
		write = p.Input
	}
	plain := max(u.Input-u.CacheRead-u.CacheWrite, 0)
	return (float64(plain)*p.Input + float64(u.CacheRead)*read + float64(u.CacheWrite)*write + float64(u.Output)*p.Output) / 1e6
}

// BudgetLimit names a limit of a [Budget].
type BudgetLimit string

// The limits.
const (
	BudgetCalls  BudgetLimit = "calls"
	BudgetInput  BudgetLimit = "input tokens"
	BudgetOutput BudgetLimit = "output tokens"
	BudgetTokens BudgetLimit = "tokens"
	BudgetCost   BudgetLimit = "cost"
)

// BudgetError says that a [Budget] is used up.
type BudgetError struct {
	Limit BudgetLimit
	Spent float64 // calls, tokens or money
	Max   float64
}

func (e *BudgetError) Error() string {
	n := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	return fmt.Sprintf("the budget of %s is used up: %s of %s", e.Limit, n(e.Spent), n(e.Max))
}

// ErrNoPrices is returned by calls of a model without prices under a budget that
// limits the cost.
var ErrNoPrices = errors.New("the budget limits the cost, but the model has no prices")

// Budgeted returns a model whose calls count towards b, at prices p. When a
// limit is reached, calls fail with a [*BudgetError] before they are made.
//
// The call that reaches a limit is still answered, and so are those that run
// beside it: a limit of tokens or cost can be exceeded by what was under way.
// MaxCalls is exact. Prices and limits below zero fail every call with an [*Error] of
// [ErrorInvalid]. A stream counts when it ends. A call that fails without an
// answer counts as a call with no tokens.
func Budgeted(m Model, b *Budget, p Prices) Model { return &budgeted{m, b, p} }

type budgeted struct {
	m Model
	b *Budget
	p Prices
}

func (g *budgeted) Generate(ctx context.Context, req *Request) (*Response, error) {
	if err := g.begin(); err != nil {
		return nil, err
	}
	resp, err := g.m.Generate(ctx, req)
	if err == nil {
		g.end(req, resp.Message, true)
	}
	return resp, err
}

func (g *budgeted) Stream(ctx context.Context, req *Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		if err := g.begin(); err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		var sum chat.Collector
		begun, whole := false, false
		defer func() {
			if begun || whole {
				g.end(req, sum.Message(), whole)
			}
		}()
		for chunk, err := range g.m.Stream(ctx, req) {
			if err == nil {
				begun = true
				sum.Add(chunk)
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
		whole = true
	}
}

// check reports prices and limits that would let a budget grow: below zero, or no numbers.
func (g *budgeted) check() error {
	b, p := g.b, g.p
	for _, n := range [...]struct {
		name  string
		value float64
	}{
		{"the price Input", p.Input}, {"the price Output", p.Output}, {"the price CacheRead", p.CacheRead}, {"the price CacheWrite", p.CacheWrite},
		{"MaxCalls of the budget", float64(b.MaxCalls)}, {"MaxInput of the budget", float64(b.MaxInput)}, {"MaxOutput of the budget", float64(b.MaxOutput)},
		{"MaxTokens of the budget", float64(b.MaxTokens)}, {"MaxCost of the budget", b.MaxCost},
	} {
		if !(n.value >= 0) || math.IsInf(n.value, 1) {
			return &Error{Provider: "model", Kind: ErrorInvalid, Message: fmt.Sprintf("%s is %v: give a number that is not negative", n.name, n.value)}
		}
	}
	if b.MaxCost > 0 && !p.known() {
		return ErrNoPrices
	}
	return nil
}

// begin takes a call from the budget, if there is anything left.
func (g *budgeted) begin() error {
	if err := g.check(); err != nil {
		return err
	}
	b := g.b
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.spent
	for _, l := range [...]struct {
		limit      BudgetLimit
		spent, max float64
	}{
		{BudgetCalls, float64(s.Calls), float64(b.MaxCalls)},
		{BudgetInput, float64(s.Usage.Input), float64(b.MaxInput)},
		{BudgetOutput, float64(s.Usage.Output), float64(b.MaxOutput)},
		{BudgetTokens, float64(s.Usage.Total()), float64(b.MaxTokens)},
		{BudgetCost, s.Cost, b.MaxCost},
	} {
		if l.max > 0 && l.spent >= l.max {
			return &BudgetError{Limit: l.limit, Spent: l.spent, Max: l.max}
		}
	}
	s.Calls++
	return nil
}

// end counts an answer, or the part of it that came.
func (g *budgeted) end(req *Request, m chat.Message, whole bool) {
	var used chat.Usage
	estimated := m.Usage == nil
	if m.Usage != nil {
		used = *m.Usage
	}
	// A part of a stream may have a usage from its beginning, with the input
	// alone and hardly any output.
	if estimated || !whole && m.Finish == "" {
		guess := chat.Usage{}
		if g.p.Estimate != nil {
			guess = g.p.Estimate(req, m)
		} else {
			guess = chat.Usage{Input: EstimateTokens(req), Output: estimateAnswer(m)}
		}
		if estimated {
			used = guess
		} else if guess.Output > used.Output {
			used.Output, estimated = guess.Output, true
		}
	}
	b := g.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent.Usage = b.spent.Usage.Add(used)
	b.spent.Cost += g.p.Cost(used)
	if estimated {
		b.spent.Estimated++
	}
}
