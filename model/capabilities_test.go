package model_test

import (
	"testing"

	"github.com/superstep-dev/superstep/model"
)

func TestAModelIsFoundByTheLongestBeginningOfItsName(t *testing.T) {
	table := model.KnownModels()
	table["gpt-5-nano-ours"] = model.Capabilities{Context: 1}
	for name, context := range map[string]int{
		"gpt-5": 400_000, "gpt-5-2025-08-07": 400_000, "gpt-4.1-mini-2025-04-14": 1_047_576, "openai/gpt-4o-mini": 128_000, "GPT-4o": 128_000,
		"gpt-5-nano-ours-2": 1, "claude-sonnet-4-5-20250929": 200_000, "claude-sonnet-4-5@20250929": 200_000, "llama3.2:3b": 0,
	} {
		if c, known := table.Of(name); !known || c.Context != context {
			t.Errorf("%s: known %v, context %d", name, known, c.Context)
		}
	}
	for _, name := range []string{"", "gpt-50", "gpt", "someone/else", "o33", "-"} {
		if c, known := table.Of(name); known {
			t.Errorf("%q is known: %+v", name, c)
		}
	}
	if c, _ := table.Of("llama3.2:3b"); c.Images {
		t.Error("llama3.2 sees")
	}
	if c, _ := table.Of("llama3.2-vision:11b"); !c.Images {
		t.Error("llama3.2-vision doesn't see")
	}
	delete(table, "gpt-5")
	if _, known := model.KnownModels().Of("gpt-5"); !known {
		t.Error("a table is not the caller's own")
	}
}

func TestWhatWrapsAModelSaysWhatThatTakesAndGives(t *testing.T) {
	big := model.WithCapabilities(model.Func(nil), model.Capabilities{Images: true, Tools: true, Context: 1000, MaxOutput: 10})
	small := model.WithCapabilities(model.Func(nil), model.Capabilities{Tools: true, Context: 100})
	for name, m := range map[string]model.Model{
		"retry": model.Retry(big, model.RetryPolicy{}), "cached": model.Cached(big, "", &model.LRU{}), "logged": model.Logged(big, nil, model.LogOptions{}),
		"budgeted": model.Budgeted(big, &model.Budget{}, model.Prices{}), "limited": model.RateLimit(big, &model.Limiter{}),
	} {
		if c, known := model.CapabilitiesOf(m, ""); !known || !c.Images || c.Context != 1000 {
			t.Errorf("%s: %v, %+v", name, known, c)
		}
	}
	c, known := model.CapabilitiesOf(model.Fallback(big, small), "")
	if !known || c.Images || !c.Tools || c.Context != 100 || c.MaxOutput != 0 {
		t.Errorf("of two: %v, %+v", known, c)
	}
	if _, known := model.CapabilitiesOf(model.Fallback(big, model.Func(nil)), ""); known {
		t.Error("it is known of two, one of which says nothing")
	}
}

func TestPricesOfModelsAreThoseOfTheTable(t *testing.T) {
	table := model.KnownModels()
	table["by-answer"] = model.Capabilities{Prices: model.Prices{Output: 1}}
	table["at-home"] = model.Capabilities{Prices: model.Prices{Free: true}}
	p := table.Prices("gpt-5-mini-2025-08-07", "claude-sonnet-4-5-20250929", "unheard-of", "llama3.1", "by-answer", "at-home")
	if len(p) != 4 || p["by-answer"].Output != 1 || !p["at-home"].Free || p["gpt-5-mini-2025-08-07"].Output != 2 || p["claude-sonnet-4-5-20250929"].CacheWrite != 3.75 {
		t.Errorf("%+v", p)
	}
}
