package agenttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/agenttest"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

func TestFaultsOfProviders(t *testing.T) {
	boom := errors.New("boom")
	bothWays(t, func(t *testing.T, stream bool) {
		for name, c := range map[string]struct {
			fault agenttest.ModelFault
			kind  model.ErrorKind
			left  int // replies of the script
		}{
			"a rate limit":    {agenttest.RateLimit(time.Minute), model.ErrorRateLimit, 1},
			"a server error":  {agenttest.ServerError(), model.ErrorServer, 1},
			"an error":        {agenttest.Fail(boom), "", 1},
			"a broken stream": {agenttest.BreakStream(1), model.ErrorBrokenStream, 0},
		} {
			s := scripted.New(scripted.Text("one two"))
			m := agenttest.Faulty(s, c.fault)
			_, err := answer(t.Context(), m, asking("?"), stream)
			var e *model.Error
			if c.kind == "" {
				if err != boom {
					t.Errorf("%s: %v", name, err)
				}
			} else if !errors.As(err, &e) || e.Kind != c.kind || (e.RetryAfter != 0) != (c.kind == model.ErrorRateLimit) {
				t.Errorf("%s: %v", name, err)
			}
			if s.Left() != c.left {
				t.Errorf("%s: %d replies are left, want %d", name, s.Left(), c.left)
			}
			m.CheckFired(t)
		}
	})
}

func TestAStreamBreaksWhereItShould(t *testing.T) {
	for n, want := range []string{"", "one ", "one two ", "one two three", "one two three", "one two three"} {
		m := agenttest.Faulty(scripted.New(scripted.Text("one two three")), agenttest.BreakStream(n))
		got, err := answer(t.Context(), m, asking("?"), true)
		if got.Text() != want || !model.Temporary(err) {
			t.Errorf("after %d chunks: %q, %v", n, got.Text(), err)
		}
	}
	m := agenttest.Faulty(scripted.New(scripted.Text("one two three")), agenttest.BreakStream(2))
	for range m.Stream(t.Context(), asking("?")) {
		break
	}
	spied(t, func(tb testing.TB) { m.CheckFired(tb) }).wants(t, `"BreakStream" never happened: 1 call was made`)
	s := scripted.New()
	if _, err := answer(t.Context(), agenttest.Faulty(s, agenttest.BreakStream(2)), asking("?"), true); !errors.Is(err, scripted.ErrScriptOver) {
		t.Errorf("a model that fails by itself: %v", err)
	}
}

func TestFaultsThatTakeTime(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		synctest.Test(t, func(t *testing.T) {
			run := func(fault agenttest.ModelFault) (string, time.Duration, error) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				got, err := answer(ctx, agenttest.Faulty(scripted.New(scripted.Text("one two")), fault), asking("?"), stream)
				return got.Text(), time.Since(start), err
			}
			chunks := time.Duration(1)
			if stream {
				chunks = 3
			}
			if got, d, err := run(agenttest.SlowTokens(time.Second)); got != "one two" || err != nil || d != chunks*time.Second {
				t.Errorf("slow tokens: %q after %v, %v", got, d, err)
			}
			for _, f := range []agenttest.ModelFault{agenttest.Hang(), agenttest.SlowTokens(time.Hour)} {
				if got, d, err := run(f); got != "" || !errors.Is(err, context.DeadlineExceeded) || d != time.Minute {
					t.Errorf("a model that hangs: %q after %v, %v", got, d, err)
				}
			}
		})
	})
}

func TestMalformedAnswers(t *testing.T) {
	two := chat.Assistant("I look.", call("1", "f", `{"a": 1, "b": 2}`), call("2", "g", ""))
	whole := model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		return &model.Response{Message: two}, nil
	})
	bothWays(t, func(t *testing.T, stream bool) {
		for name, c := range map[string]struct {
			fault agenttest.ModelFault
			want  []chat.ToolCall
		}{
			"unknown tools":    {agenttest.UnknownTool(), []chat.ToolCall{call("1", agenttest.NoSuchTool, `{"a": 1, "b": 2}`), call("2", agenttest.NoSuchTool, "")}},
			"broken arguments": {agenttest.BrokenArguments(), []chat.ToolCall{call("1", "f", `{{"a": 1, "b": 2}`), call("2", "g", "{")}},
			"no IDs":           {agenttest.NoCallID(), []chat.ToolCall{call("", "f", `{"a": 1, "b": 2}`), call("", "g", "")}},
			"nothing":          {agenttest.EmptyAnswer(), nil},
		} {
			for which, inner := range map[string]model.Model{"in pieces": scripted.New(scripted.Message(two)), "whole": whole} {
				m := agenttest.Faulty(inner, c.fault)
				got, err := answer(t.Context(), m, asking("?"), stream)
				if err != nil || fmt.Sprint(got.ToolCalls()) != fmt.Sprint(c.want) || got.Role != chat.RoleAssistant || got.Finish == "" && inner != nil && which == "in pieces" {
					t.Errorf("%s, %s: %v, %v", name, which, got, err)
				}
				m.CheckFired(t)
			}
		}
	})
	if fmt.Sprint(two.ToolCalls()) != fmt.Sprint([]chat.ToolCall{call("1", "f", `{"a": 1, "b": 2}`), call("2", "g", "")}) {
		t.Errorf("the model's own message was altered: %v", two)
	}
}

func TestFaultsHappenAtTheirCalls(t *testing.T) {
	boom := errors.New("boom")
	m := agenttest.Faulty(scripted.New(scripted.Text("ok").Repeat()), agenttest.Fail(boom).At(2, 4), agenttest.ServerError().At(4, 9))
	var got string
	for n := range 5 {
		_, err := answer(t.Context(), m, asking("?"), n%2 == 0)
		got += fmt.Sprint(err == nil, errors.Is(err, boom), " ")
	}
	if got != "true false false true true false false true true false " || m.Calls() != 5 {
		t.Errorf("%s, %d calls", got, m.Calls())
	}
	spied(t, func(tb testing.TB) { m.CheckFired(tb) }).wants(t, `the fault "ServerError" at [4 9] never happened: 5 calls were made`)
}

func TestFaultsByChanceFollowFromTheirSeed(t *testing.T) {
	run := func(seed uint64) (failed string) {
		m := agenttest.Faulty(scripted.New(scripted.Text("ok").Repeat()), agenttest.ServerError().Sometimes(0.3, seed))
		for range 100 {
			if _, err := m.Generate(t.Context(), asking("?")); err != nil {
				failed += "x"
			} else {
				failed += "."
			}
		}
		m.CheckFired(t)
		return failed
	}
	a, b := run(1), run(2)
	if a != run(1) || a == b {
		t.Errorf("%s\n%s", a, b)
	}
	for _, f := range []string{a, b} {
		if n := len(f) - len(removed(f)); n < 15 || n > 45 {
			t.Errorf("%d of 100 failed, with a chance of 0.3", n)
		}
	}
	never := agenttest.Faulty(scripted.New(scripted.Text("ok")), agenttest.ServerError().Sometimes(0, 1))
	if _, err := never.Generate(t.Context(), asking("?")); err != nil {
		t.Error(err)
	}
	never.CheckFired(t)
}

func removed(s string) (left string) {
	for _, r := range s {
		if r != 'x' {
			left += string(r)
		}
	}
	return left
}

func TestFaultsAreAroundEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := agenttest.Faulty(scripted.New(scripted.Text("one two three")), agenttest.SlowTokens(time.Second), agenttest.BreakStream(2))
		start := time.Now()
		got, err := answer(t.Context(), m, asking("?"), true)
		if got.Text() != "one two " || err == nil || time.Since(start) != 2*time.Second {
			t.Errorf("%q, %v after %v", got.Text(), err, time.Since(start))
		}
	})
}

func TestFaultsOfTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		args := json.RawMessage(`{"a":6,"b":7}`)
		out := errors.New("out of paper")
		own := &tool.Error{Tool: "multiply", Kind: tool.ErrorArguments, Err: out}
		use := func(f agenttest.ToolFault) (r tool.Result, err error) {
			mul := agenttest.FaultyTool(multiply(&calls), f)
			defer mul.CheckFired(t)
			return mul.Call(t.Context(), args)
		}
		var te *tool.Error
		if _, err := use(agenttest.FailTool(out)); !errors.As(err, &te) || te.Tool != "multiply" || te.Kind != tool.ErrorFailed || !errors.Is(err, out) {
			t.Errorf("a failure: %v", err)
		}
		if _, err := use(agenttest.FailTool(own)); err != error(own) {
			t.Errorf("a failure of its own: %v", err)
		}
		func() {
			defer func() {
				if v := recover(); v != "oh" {
					t.Errorf("a panic: %v", v)
				}
			}()
			_, _ = use(agenttest.PanicTool("oh"))
		}()
		if r, err := use(agenttest.HugeResult(1000)); err != nil || len(r.Content[0].(chat.Text).Text) != 1000 {
			t.Errorf("a huge result: %v, %v", r, err)
		}
		if calls.Load() != 0 {
			t.Errorf("the tool was called %d times", calls.Load())
		}
		start := time.Now()
		if r, err := use(agenttest.SlowTool(time.Second)); err != nil || r.Content[0] != (chat.Text{Text: "42"}) || time.Since(start) != time.Second || calls.Load() != 1 {
			t.Errorf("a slow tool: %v, %v after %v", r, err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := agenttest.FaultyTool(multiply(&calls), agenttest.SlowTool(time.Hour)).Call(ctx, args); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a slow tool, in time: %v", err)
		}
	})
}

func TestAToolWithFaultsIsTheToolToAnAgent(t *testing.T) {
	var calls atomic.Int32
	mul := multiply(&calls)
	f := agenttest.FaultyTool(mul)
	if f.Spec().Name != "multiply" || f.Unwrap() != mul || tool.Check(f) != nil {
		t.Errorf("%v, %v", f.Spec(), tool.Check(f))
	}
	bad := agenttest.FaultyTool(tool.New("no name", "", func(context.Context, struct{}) (string, error) { return "", graph.ErrNotInNode }))
	if tool.Check(bad) == nil {
		t.Error("the mistake in its definition is hidden")
	}
}
